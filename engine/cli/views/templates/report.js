// Shows only the sessions of one kind, or those that contain some words. The page can be read without it.
(() => {
  const find = document.getElementById('find');
  if (!find) return;
  const why = document.getElementById('why'), words = document.getElementById('words');
  const found = document.getElementById('found');
  const sessions = [...document.querySelectorAll('details.session')];
  find.hidden = false;
  const look = () => {
    const wanted = words.value.toLowerCase();
    let many = 0;
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
})();
