"""Tell a passphrase, words chosen at random, from names of settings and from prose about passwords."""

from __future__ import annotations

import re

_WORD = re.compile(r"[a-z]+")
_COMMON = frozenset(
    """
    a about access account admin after again all always an and another any api app application apps are args as at attr
    auth authentication authorization aws azure back base basic be bearer been before body branch build but by bytes cache
    call can cannot cert change check class client cloud code com config connection container context cookie could create
    credential credentials current custom data database default delete dev did digest do docker does domain don done each
    email empty encoded encrypted end endpoint ends enter entry env environment error errors every example expected expired
    export external fail failed false field file files first for form format found from function gateway generate get git
    github given go group had has hash have header headers help here hidden hide high home host how http https id if import in
    incorrect index info init input insert internal into invalid io is issued it item its job just key keys kind kube label
    last left length less like line list load local log login long machine main manager master max may message method min
    missing mode model module more most must my name names need needed never new next no node none not null object of off old
    on one only op open option optional or org other our out output own page param parameter params parser pass passphrase
    passwd password passwords path please policy port prefix prod production profile prop props provider proxy public put pwd
    query read redis ref region remote request required reset resource response role root route rule run same save schema
    scope secret secrets self send server service session set setting settings shall should show sign size so source space ssh
    stage start state status storage store string strong such sync system table tag target temp template test testing than
    that the their them then there this time title to token tokens too true two type undefined until update upper url use used
    user username users using utils valid value values vault vars verify version via view wait was we web when where which
    will with without word words work wrong www you your
    """.split()
)
"""Words of prose and of settings. A passphrase from a list of thousands of words has one of them now and then."""


def is_passphrase(text: str) -> bool:
    """Whether at most one of at least three words is a word of prose or of settings."""
    words = _WORD.findall(text)
    return len(words) >= 3 and sum(word in _COMMON for word in words) * 4 <= len(words)
