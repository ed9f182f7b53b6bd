// Shows only the sessions of one kind, or those that contain some words, and lets a press on a cell follow the link of its
// step's row. The page can be read without it.
(() => {
  const find = document.getElementById('find');
  if (!find) return;
  const why = document.getElementById('why'), words = document.getElementById('words');
  const found = document.getElementById('found');
  const sessions = [...document.querySelectorAll('details.session')];
  const more = document.querySelector('details.more');
  find.hidden = false;
  const look = () => {
    const wanted = words.value.toLowerCase();
    let many = 0;
    if (more && (why.value || wanted)) more.open = true;
    for (const session of sessions) {
      const fits = (!why.value || session.dataset.why.split(' ').includes(why.value)) &&
        (!wanted || session.textContent.toLowerCase().includes(wanted));
      session.hidden = !fits;
      many += fits;
    }
    found.textContent = many + ' of ' + sessions.length + ' sessions';
  };
  why.addEventListener('change', look);
  words.addEventListener('input', look);
  look();
  for (const cells of document.querySelectorAll('.cells')) {
    const linkOf = (event) => {
      const cell = event.target.closest('.cell:not(.said)');
      const row = cell && cells.parentElement.querySelectorAll('tr.step')[[...cells.querySelectorAll('.cell:not(.said)')].indexOf(cell)];
      return row && (row.querySelector('a.failed') || row.querySelector('a'));
    };
    cells.classList.add('opens');
    cells.addEventListener('mouseover', (event) => {
      const link = linkOf(event);
      if (link) event.target.title = 'Step ' + link.closest('tr').querySelector('th').textContent + ': to the viewer';
    });
    cells.addEventListener('click', (event) => {
      const link = linkOf(event);
      if (link && (event.ctrlKey || event.metaKey)) window.open(link.href);
      else if (link) link.click();
    });
  }
})();
