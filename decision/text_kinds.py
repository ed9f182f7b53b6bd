"""Tells what a text of a model is: an answer, a question to the user, an announcement, or one of five other kinds.

A program that runs an agent treats a response without calls as "done", although most such texts in a conversation ask
the user for something. `classify_text` tells them apart by how the text begins and how it ends. It looks at the first
and the last 2,000 characters only, so that its work is bounded, and never raises.

Each kind has one test, in this order:

- *error*: a short text that begins as errors of providers and tools do ("API Error: 529 ...");
- *echo*: the text begins with a clause that says what a tool returned, and draws no conclusion from it;
- *refusal*: the first sentences decline, and nothing is asked afterwards but whether an offer is taken;
  *refusal_with_offer*, if a clause without a negation says what the speaker could do;
- *question*: one of the last sentences asks the user for something. Merely offering more help does not count, but
  asking whether to go on does;
- *partial*: it says what is left for the agent to do, or that not all is done of what it counts or lists;
- *announcement*: the last sentence says what comes next ("Let me run the tests:");
- *answer*: everything else.

The phrases are in `text_kinds.toml` by language: English, Spanish, French, German, Portuguese, Italian, Russian,
Chinese, Japanese and Korean. They are read and compiled when the first text is classified. A text in another language
is a question if it ends with a question mark of its script, and otherwise an answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Literal, get_args

from .chinese_script import SIMPLIFIED, simplified
from .confirmation import ASKING_ENDINGS
from .deferred_patterns import compile_deferred, deferred
from .phrases import Phrases
from .progress_counts import counts_a_part, reports_a_count
from .word_tables import expression, word_tables

TextKind = Literal[
    "answer", "partial", "question", "announcement", "refusal", "refusal_with_offer", "echo", "error"
]  # fmt: skip
"""What a text of a model is, as `classify_text` tells it. An `echo` repeats a tool's result; texts that repeat an
instruction are handled separately (`Policy.echo`, `echoes.py`)."""
TEXT_KINDS: frozenset[str] = frozenset(get_args(TextKind))
LAST_WORDS: frozenset[TextKind] = frozenset({"answer", "refusal"})
"""Kinds of text with which a model ends its work, because it has nothing more to do and waits for nothing."""

SEEN = 2_000
"""Number of characters read at the beginning of a text, and at its end."""
CLAIM = 200
"""The same for whether a text reports the work as done."""
_LONGEST_ERROR = 1_500
"""Maximum length of a text that is an error, in characters; a longer one reports about errors."""
_REPORT = 8
"""Number of sentences at the end in which a report says what is left."""
_OPENING = 4
"""Number of sentences at the beginning in which a refusal is looked for."""
_CLOSING = 4
"""Number of sentences at the end in which a question is looked for."""

_MARKS = str.maketrans(dict.fromkeys("？﹖︖⁇⁈⁉‽؟⸮⳺⳻፧꘏꛷᥅⹔𑅃❓❔", "?") | dict.fromkeys("’‘ʼ＇`´", "'")) | SIMPLIFIED
"""Question marks of all scripts, apostrophes, and traditional Chinese characters."""
_ARMENIAN = deferred(r"՞([^։\n]*)։?")
_GREEK = deferred(r"(?<=[\u0370-\u03ff\u1f00-\u1fff]);")
_FENCE = deferred(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE = deferred(r"(?<=[.!?…])[\"')*_\]]{0,4}\s+|(?<=[。!?])(?=[^\s\"')\]」』”])|\n+|(?<=。)")
_ITEM = deferred(r"\s*(?:[-*•·●▪✓✔✅❌☑]|\(?[a-z]\))\s")
_NUMBER = deferred(r"(?<!\s)\s*+\d{1,3}[.)、]\s")
"""The number of a list item, which does not end a sentence."""
_BOX = deferred(r"\W{0,4}?(?:(?P<done>\[x\]|[✅☑✔✓])|(?P<open>\[[ ~-]?\]|[⬜☐□◻⏳🔲🚧]))")
"""An item of a checklist."""
_STATE = deferred(r"[|:–—→,]|\s-\s|=>|->")
"""Separator before the state of an item."""
_OWN_WORDS = deferred(r"[^\W\d_](?>[^|{}<>\s]*\s){2}(?>[^|{}<>]*[.!?])\W*+$|[^|{}<>]{6,}[。!?]$")
"""A sentence of prose."""
_INTRODUCES = deferred(r"[^:\n.。]{1,120}(?:[.](?=\w)[^:\n.。]{0,80}){0,3}(?::|。?\n)")
"""Words before a colon or at the end of a line that may introduce what follows."""
_OF_SOMEBODY = deferred(
    r"^\W*(?!executed|called|received|returned|invoked)\w+ed\b|"
    r"\b(here|i|we|i'(ve|m|ll)|my|your|you|ich|je|j'\w+|he|hemos|su|tu|ihre?|votre)\b|我|您|你"
)
"""Words about what the speaker did or what belongs to the user; a repeated result is introduced without them."""
_CLAUSE = deferred(r"[,;:()、—–]|\b(?:but|so|and|aber|pero|mais|und|y|et)\b|でき(?:ません|かね)|但|倒")
"""End of a clause."""
_LEFT_OUT = deferred(r"\s*(?:#{1,6}\s|\||[-=*_]{3,}\s*$)")
_ANSWERED = deferred(
    r"(回答|作答|答复|answer(ing)?|directly|(?:respon[ds]|répond|antworte|rispond|отве[тч])\w{0,20}|reply|"
    r"答えし?ます|하겠습니다) ?: ?\w"
)
"""An answer that follows its announcement ("I will answer directly: 42")."""
_SENTENCE_ENDS = deferred(r"[.!?;。！？；\n]+\s*")
"""Punctuation and line breaks that end a sentence. Unlike `_SENTENCE`, it also splits a name at its dot."""
_THOUGHT = deferred(r"\s*(?:thought|thoughts|discussion|reasoning|plan)s?\s*:", re.IGNORECASE)
_DRESSING = r"*_~>\"'“”«»「」()[] 	"


def is_last_word(kind: TextKind | None) -> bool:
    """Return whether a model that says this reports that it is done; None stands for a completion call, which does."""
    return kind is None or kind in LAST_WORDS


def classify_text(text: str) -> TextKind:
    """Tell what a text of a model is. It looks at the first and the last `SEEN` characters only."""
    return _classify(text[:SEEN], text[-SEEN:], len(text) > SEEN, len(text) <= _LONGEST_ERROR)


def reports_done(text: str) -> bool:
    """Return whether a text says at its beginning or at its end that the work is done, and announces nothing.

    `CLAIM` characters of both are read, since it is asked of each text beside calls.
    """
    if not text:
        return False  # most calls stand beside no text: no word is loaded for them
    ends = (text,) if len(text) <= CLAIM else (text[:CLAIM], text[-CLAIM:])
    told = (end for end in map(_fold, ends) if _phrases("done").may_be_in(end))
    return _reports_done(one for end in told for one in _SENTENCE_ENDS.split(end)) and classify_text(text) == "answer"


def load() -> None:
    """Build what texts, calls and results are judged by. Otherwise the first ones do, which takes 0.15 s."""
    compile_deferred()
    for name in word_tables("text_kinds"):
        _phrases(name).may_be_in("")
    for text in ("Done.", "The result is 4. Shall I go on?", "I will look."):
        classify_text(text)


@lru_cache(maxsize=64)  # a decision, its trace and the summary ask about the same text
def _classify(opening: str, closing: str, cut: bool, short: bool) -> TextKind:
    """Classify a text by its two ends.

    cut: whether `closing` may begin in the middle of the text. short: whether the whole text is short enough for an
    error.
    """
    beginning = _fold(opening[:400].lstrip())
    if short and _error().match(beginning):
        return "error"
    if _THOUGHT.match(opening) and closing.rstrip().endswith("```"):
        return "announcement"  # thought and action, as written by agents that do not call tools by name
    first, last = _sentences(opening, cut=False)[:_OPENING], _sentences(closing, cut)
    if _begins_as_echo(beginning) and not _concludes(beginning, first, last, closing):
        return "echo"
    asked = _asked(first, last)
    if _declines(first, last, asked):
        return "refusal_with_offer" if asked or _offers([*first, *last]) else "refusal"
    if asked:
        return "question"
    if _is_partial(first, last, closing):
        return "partial"
    return "announcement" if _announces(last, closing) else "answer"


def _concludes(beginning: str, first: list[str], last: list[str], closing: str) -> bool:
    """Return whether a text that begins with a tool's result continues with the model's own words."""
    later = [one for one in last if one not in first[:1]]
    said, colon, _ = beginning.partition(":")
    if not colon or "\n" in said.strip():
        own = any(_OWN_WORDS.match(one) and not _begins_as_echo(one) for one in later[-3:])
        return own or _finds("conclusion", first[0] if first else "")
    paragraph = _fold(_FENCE.sub("", closing).rstrip().rpartition("\n\n")[2])
    if later and "\n\n" in closing and _OWN_WORDS.match(paragraph):
        return True
    return _finds("conclusion", said) or any(_begins("own_words", one) for one in later[-2:])


def _offers(sentences: list[str]) -> bool:
    """Return whether a sentence names something else that the speaker would do."""
    told = (one for one in _with("alternative", sentences) if not _finds("more", one))
    clauses = (clause for one in told for clause in _CLAUSE.split(one))
    return any(_finds("alternative", clause) and not _finds("negation", clause) for clause in clauses)


def _is_partial(first: list[str], last: list[str], closing: str) -> bool:
    """Return whether a text reports work of which the speaker has done a part and is to do the rest."""
    told = list(dict.fromkeys((*first, *last[-_REPORT:])))
    if any(not _of_the_user(one) for one in _with("left", told)):
        return True
    counts = [one for one in told if counts_a_part(one)]
    if any(map(reports_a_count, counts)):
        return True
    whole = any(_finds("whole", one) for one in first[:2]) or _reports_done(first[:1])
    if not whole and (_has_done_and_open_items(last, closing) or _leaves_a_rest(counts, told)):
        return True
    not_yet = [one for one in told if _finds("not_yet", one) or (_finds("comes_next", one) and not _is_beside(one))]
    if told and _finds("progress", told[0]):
        return bool(not_yet or counts)
    if not not_yet or whole:
        return False
    return bool(counts) or _done_before(not_yet[0], told)


def _of_the_user(sentence: str) -> bool:
    """Return whether a sentence says what depends on the user."""
    return _finds("conditional", sentence) and _finds("to_user", sentence)


def _leaves_a_rest(counts: list[str], told: list[str]) -> bool:
    """Return whether a part is counted as done, and a rest is named that needs something."""
    if not any(_finds("part_done", one) for one in counts):
        return False
    return any(not _finds("unneeded", one) for one in _with("remainder", told))


def _has_done_and_open_items(last: list[str], closing: str) -> bool:
    """Return whether some items of a list or a table are marked as done, and some as not."""
    marks = {name for one in last if (box := _BOX.match(one)) for name in ("done", "open") if box[name]}
    rows = [_fold(line) for line in closing.splitlines() if line.lstrip().startswith("|")]
    for line in (*last, *rows):
        states = [state.strip(_DRESSING + ".。!;") for state in _STATE.split(line)[1:]]
        marks |= {name for name in ("done", "open") if any(map(_pattern(f"{name}_state").fullmatch, states))}
    return len(marks) == 2


def _with(name: str, sentences: list[str]) -> list[str]:
    """Return the sentences that have one of the phrases."""
    if not _phrases(name).may_be_in("\n".join(sentences)):
        return []
    return [one for one in sentences if _finds(name, one)]


def _done_before(open_part: str, told: list[str]) -> bool:
    """Return whether a part of the work is reported as done before the words that say what is not."""
    before = told[: told.index(open_part)]
    clause = open_part[: _phrases("not_yet").find(open_part)]
    return any(_finds("part_done", one) for one in (*before, clause))


def _asked(first: list[str], last: list[str]) -> list[str]:
    """Return the sentences among the last that ask the user for something.

    If the first ones report that the work is done, an offer in the last ones is not needed to go on.
    """
    found: list[str] = []
    seen = 0
    for sentence in reversed(last):
        if seen == _CLOSING:
            break
        if _is_needed(sentence, first, ends_text=not seen):
            found.append(sentence)
        elif _ITEM.match(sentence) or _is_beside(sentence):
            continue
        seen += 1
    return found


def _is_needed(sentence: str, first: list[str], ends_text: bool) -> bool:
    """Return whether a sentence asks for something that is needed to go on."""
    if _finds("proceed", sentence):
        return True
    return _asks(sentence, ends_text) and not (_finds("offer", sentence) and _reports_done(first))


def _reports_done(first: Iterable[str]) -> bool:
    return any(_finds("done", sentence) for sentence in first)


def _asks(sentence: str, ends_text: bool) -> bool:
    """Return whether a sentence asks. If more follows, a question counts only if it is meant for the user."""
    if _finds("more", sentence):
        return False
    request = _phrases("request").find(sentence)
    if request >= 0:
        courtesy = _phrases("courtesy").find(sentence)
        if courtesy < 0 or request < courtesy or "?" in sentence:
            return True
    bare = sentence.rstrip(_DRESSING + ".。!:")
    if not bare.endswith(("?", *ASKING_ENDINGS)):
        return False
    return ends_text or _finds("to_user", sentence) or _finds("choice", sentence)


def _declines(first: list[str], last: list[str], asked: list[str]) -> bool:
    """Return whether a text begins by declining, and afterwards asks only whether an offer is taken."""
    if not all(_only_offers(sentence, last) for sentence in asked):
        return False
    for sentence in first:
        sorry = _finds("regret", sentence) or _finds("apology", sentence)
        done = -1 if sorry else _phrases("done").find(sentence)
        refused = _refuses(sentence if done < 0 else sentence[:done], bool(asked))
        if refused or (refused is None and (asked or _offers([*first, *last]))):
            return True
        short = len(last) <= _OPENING  # a longer report says "not" and "but" about many things
        if short and done < 0 and _finds("negation", sentence) and _offers(_with("contrast", last)):
            return True
        if done >= 0:
            return False
    return False


def _only_offers(question: str, last: list[str]) -> bool:
    """Return whether a question only asks whether an offer is taken that is made there or just before."""
    if _finds("proceed", question):
        return "let me know" in question
    if _finds("agreement", question):
        return True
    if _finds("request", question):
        return False
    if _finds("offer", question) or _finds("alternative", question):
        return True
    before = [one for one in last[: last.index(question)] if not _ITEM.match(one)]
    return _offers(before[-1:])


def _refuses(sentence: str, asks: bool) -> bool | None:
    """Return whether a sentence declines; None if it declines while offering something else."""
    rest = _pattern("seeking").sub(" ", sentence) if _finds("seeking", sentence) else sentence
    regrets = _finds("regret", rest)
    if _finds("cannot", rest) or (regrets and asks):
        return True
    if not _finds("cannot_be", rest):
        return False
    return True if regrets or _finds("apology", rest) else None


def _announces(last: list[str], closing: str) -> bool:
    """Return whether the text breaks off at a colon, or its last sentence, courtesies aside, says what comes next."""
    if closing.rstrip(_DRESSING + "\n").endswith((":", "：")):
        return True
    items = False
    for sentence in reversed(last):
        if _ITEM.match(sentence):
            items = True
        elif not _is_beside(sentence):
            bare = _without_signs_at_the_end(sentence)
            return (bare.endswith(":") or not items) and _says_what_comes(bare.rstrip(":"))
    return False


def _without_signs_at_the_end(sentence: str) -> str:
    """Return the sentence up to its last letter, digit or colon."""
    end = len(sentence)
    while end and not (sentence[end - 1].isalnum() or sentence[end - 1] == ":"):
        end -= 1
    return sentence[:end]


def _says_what_comes(sentence: str) -> bool:
    found = _phrases("announcing").find(sentence)
    if found < 0 or _ANSWERED.search(sentence, found):
        return False
    return _phrases("conditional").find(sentence[:found]) < 0


def _is_beside(sentence: str) -> bool:
    """Return whether a sentence is a courtesy, or explains the one before it."""
    return _begins("afterthought", sentence) or _finds("more", sentence) or _finds("courtesy", sentence)


def _sentences(part: str, cut: bool) -> list[str]:
    """Return the sentences of a part, without code, headings, tables. cut: whether the part may begin within code."""
    if cut and part.count("```") % 2:
        part = part.split("```", 1)[1]
    lines = (_NUMBER.sub("- ", line) for line in _FENCE.sub("\n", part).splitlines() if not _LEFT_OUT.match(line))
    pieces = _SENTENCE.split(_fold("\n".join(lines)))
    return [piece for piece in pieces if any(map(str.isalnum, piece)) or "?" in piece]


def _fold(text: str) -> str:
    """Return a text in lower case, normal width and simplified characters, with one question mark for all scripts."""
    if text.isascii():
        return text.replace("`", "'").lower()
    text = _GREEK.sub("?", _ARMENIAN.sub(r"\1?", text.translate(_MARKS)))
    return unicodedata.normalize("NFKC", text).casefold()


def _finds(name: str, text: str) -> bool:
    return _phrases(name).find(text) >= 0


def _begins(name: str, text: str) -> bool:
    return _pattern(name).match(text) is not None


@cache
def _phrases(name: str) -> Phrases:
    """Return the phrases of a table, to be searched for."""
    return Phrases(simplified(_expression(name)))


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """Return the phrases of a table as one pattern, for what a text begins with or consists of."""
    return re.compile(simplified(_expression(name)))


@cache
def _error() -> re.Pattern[str]:
    """Return a pattern for the beginning of an error."""
    return re.compile(rf"\W{{0,8}}(?:{simplified(_expression('error'))})")


def _expression(name: str, language: Callable[[str], bool] = lambda language: True) -> str:
    """Return one expression of the phrases of a table, in all languages or in some."""
    return "|".join(expression(lines) for code, lines in word_tables("text_kinds")[name].items() if language(code))


_OTHER_SCRIPTS = frozenset({"ru", "zh", "ja", "ko"})
"""Languages whose phrases never occur in an ASCII text."""


@cache
def _echo(other_scripts: bool) -> re.Pattern[str]:
    """Return a pattern for the beginning of a repeated result, in the languages of Latin script or in the others."""
    phrases = _expression("echo", lambda language: (language in _OTHER_SCRIPTS) == other_scripts)
    return re.compile(rf"[\W_]{{0,8}}(?:{_expression('here')})?(?:{simplified(phrases)})|<tool_|<function_")


def _introduces_a_result(text: str) -> bool:
    """Return whether a text is what a tool returned, after a clause that says so."""
    said = _INTRODUCES.match(text)
    if said is None or _OF_SOMEBODY.search(said[0]) or not _finds("result", said[0]):
        return False
    rest = text[said.end() :].lstrip(" \n")
    return rest.startswith(("{", "[", "'''")) or _finds("source", said[0])


def _begins_as_echo(text: str) -> bool:
    if _introduces_a_result(text) or _echo(other_scripts=False).match(text):
        return True
    return not text.isascii() and _echo(other_scripts=True).match(text) is not None
