r"""Secrets that are found by a keyword: a vendor's key prefix, a command option, an XML element, a phrase.

A pattern is tried only where its keyword occurs, which `str.find` finds: a text without the keyword costs next to
nothing. Every repetition in a pattern is bounded, so the time is linear in the length of the text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from .entropy import has_many_humps, looks_generated, looks_random
from .secret_rules import JUDGED_CHARS, Span, find_all

SecretTest = Callable[[str, str], bool]
"""Takes the kind of a value (`password`, `secret`) and the value; says whether it is a secret."""

COVER = "\uffff"
"""Covers what was found before. A value that contains it is no secret of its own."""
_KEY_CHAR = r"[A-Za-z0-9_-]"
_DIGIT, _LETTER, _SIGN = re.compile(r"[0-9]"), re.compile(r"[A-Za-z]"), re.compile(r"[^\w\s]")
QUOTE = r"(?:\\{0,4}[\"'`]|[«“„‘‚][ \u00a0\u202f]?|[ \u00a0\u202f]?[»”’])"
BARE = r"[^\s\"'`,;&|<>(){}\[\]\\«»“”„‘’]"
_VALUE = rf"(?:{QUOTE}|\\[a-z]{{2,12}}\{{)?(?P<v>{BARE}{{4,200}})"
_WORD = rf"(?:{QUOTE})?(?P<v>[^\s\"'`\\]{{4,200}})"
EOL = r"(?:\r?\n|\\r\\n|\\n)"
"""A line end, also as JSON writes it."""
_LINES = rf"[A-Za-z0-9+/_-]{{16,}}={{0,2}}(?:{EOL}[ \t]{{0,20}}[A-Za-z0-9+/_-]{{2,}}={{0,2}})*+"
"""Lines of base64."""
_SAME_LINE = r"[^\n|;&]{0,100}?"

SPACED = r"[a-z]{3,12}(?: [a-z]{3,12}){2,23}"
"""Three words or more of small letters with spaces between them."""


@dataclass(frozen=True)
class KeywordPattern:
    """A pattern for a secret near one of several keywords."""

    words: tuple[str, ...]
    """The keywords, in lower case. The pattern begins where one of them does, or up to `back` characters before."""
    regex: str
    """The regular expression, whose group `v` is the secret."""
    kind: str = "password"
    """How a match is checked. `password`, `secret` (which must look random) and `argument` (which must be no word): by
    the caller's `SecretTest`. `login`: it must be `user:password` in base64. `bearer`: letters and digits, and no path.
    `cookie`: one of its values must look random. `generated`: it must look generated. `drawn`: as that, with small
    letters and capitals. `encoded`: it must be a text in base64. `mixed`: it must mix small letters, capitals and
    digits, or look random. `salt`: it must have signs, or look generated. `form`: not at all, because only secrets have
    this form."""
    back: int = 0
    ahead: int = 20
    """Where a pattern with `back` must end: so many characters after the beginning of the keyword."""
    needs: str = ""
    """A word in lower case that has to stand somewhere in the text."""


_ASSIGNED = (
    r"[ \t]{0,4}(?:[:=：＝—–→]|->|是[:：]?|[为為はè]|(?:ist|lautet|est|es|é|is|är|er|on|je|jest|to|là|este|adalah|è)"
    r"(?=[ ]))"
    r"[ \t]{0,4}"
)
"""What stands between a word for "password" and its value in a sentence."""
_LATIN_PASSWORDS = (
    *"passwort kennwort contraseña contrasena senha palavra-passe palavra_passe wachtwoord heslo salasana".split(),
    *"adgangskode hasło lösenord passord şifre parola parool jelszó lozinka slaptažodis parole zaporka geslo".split(),
    *(
        "mot de passe",
        "mots de passe",
        "parola d'ordine",
        "mật khẩu",
        "kata sandi",
        "palabra de paso",
        "clave de",
        "code secret",
        "codice segreto",
        "geheimcode",
    ),
)
"""Words for "password", after which a sentence goes on to its value."""
_OTHER_PASSWORDS = (
    *"密码 密碼 口令 秘密 密钥 密鑰 パスワード 暗証番号 暗号 비밀번호 암호 패스워드 סיסמה סיסמא הסיסמה".split(),
    *"पासवर्ड পাসওয়ার্ড รหัสผ่าน κωδικός пароль гасло".split(),
    *("كلمة المرور", "كلمة السر", "رمز عبور"),
)
"""The same in other letters: what is of ASCII behind them is the value."""
TOKEN_PATTERNS = (
    KeywordPattern(
        ("bearer", "basic", "token"),
        r"(?<![A-Za-z0-9_])(?:bearer|(?:basic|token)(?=[ \t]{1,4}\S{0,200}\d))"
        rf"(?:[ \t]{{1,4}}|{QUOTE}[ ]?,[ ]?{QUOTE})"
        r"(?P<v>[A-Za-z0-9._~+/=-]{16,}+)",
        "bearer",
    ),
    KeywordPattern(
        ("cookie",), r"cookie(?:\\{0,4}[\"'])?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?P<v>[^\r\n\"'\\]{8,4000}+)", "cookie"
    ),
    KeywordPattern(
        ("cookie",),
        rf"cookies?(?:\.set|\.add)?[ \t]?(?:\("
        rf"|[:=][ \t]?[{{\[]|\[)[ \t]?{QUOTE}[\w.-]{{1,60}}{QUOTE}\]?[ \t]?[:,=][ \t]?{QUOTE}"
        r"(?P<v>[^\r\n\"'\\]{8,4000}+)",
        "cookie",
    ),
    KeywordPattern(
        ("curl",),
        rf"curl\b{_SAME_LINE}[ \t](?:-b|--cookie)(?:[ \t=]{{1,3}}|(?=[\"']))[\"']?(?P<v>[^\r\n\"']{{8,4000}}+)",
        "cookie",
    ),
    KeywordPattern(
        ("authorization",),
        rf"authorization(?:{QUOTE})?[ \t]{{0,4}}[:=,][ \t]{{0,4}}(?:{QUOTE})?"
        rf"(?:(?:[A-Za-z][A-Za-z-]{{1,30}}|AWS4-HMAC-SHA256)[ \t]{{1,2}}){{0,2}}+"
        r"(?P<v>[A-Za-z0-9._~+/=-]{12,}+)",
        "bearer",
    ),
    KeywordPattern(
        ("signature=", "response=", "mac=", "hmac=", "?sig=", "&sig="),
        r"[?&]?(?:sig(?:nature)?|response|h?mac)=(?:\\{0,4}\")?(?P<v>[A-Za-z0-9+/=%_-]{20,}+)",
        "generated",
    ),
)
"""What stands in the headers of HTTP, and in their options of `curl`."""
_LOGIN = r"[^\s\"'`:/@]{1,60}"
_DIALOGUE = r"(?:^|(?<=[\n>:\]])|(?<=\\n)|(?<=[>:\]][ ]))"
"""Where a command of a protocol begins: a line, or what follows the mark of a side."""


@dataclass(frozen=True)
class CommandOptions:
    """The options of commands whose value is a password."""

    commands: tuple[str, ...]
    """What the commands' names begin with, in lower case."""
    option: str
    """A regular expression of the option, with what stands between it and its value."""
    kind: str = "password"
    """As that of a `KeywordPattern`."""


COMMAND_OPTIONS = (
    CommandOptions(("mysql", "mariadb", "7z", "7za", "unrar"), "-p"),
    CommandOptions(("sshpass",), "-p[ ]?"),
    CommandOptions(
        tuple(
            "mongo twine cqlsh rabbitmqadmin plink pscp psexec smbmap crackmapexec nxc evil-winrm influx useradd hydra "
            "medusa skopeo clickhouse-client signtool veracrypt".split()
        ),
        "(?:-p|/p)(?:[ =:]|(?=[^a-z]))",
    ),
    CommandOptions(
        tuple("sqlcmd bcp osql isql tsql ipmitool mosquitto_ zip unzip snmp smbpasswd rdesktop influx".split()),
        "-P[ ]?",
    ),
    CommandOptions(("snmp", "net-snmp"), "-[AX][ ]?|-c[ ](?!public|private)"),
    CommandOptions(("redis-cli", "valkey-cli", "keydb-cli"), "-a[ ]"),
    CommandOptions(("ldap",), "-[wys][ ]?"),
    CommandOptions(("http", "https"), "-a[ ][^\\s:]{1,60}:"),
    CommandOptions(("smbclient", "rpcclient", "net rpc", "lftp", "ncftp"), "-[Uu][ ]?[^\\s%,]{1,60}[%,]|-p[ ]"),
    CommandOptions(("openssl",), "-[Kk][ ]"),
    CommandOptions(("nuget", "choco", "dotnet"), "(?:-k|-ApiKey|setApiKey)[ ]", "secret"),
)
"""Options that mean something else in other commands. What is spelled out, as `--password`, is found by its name."""
_LONGEST_COMMAND = 400
"""Characters of a command that are looked at."""
KEYWORD_PATTERNS = (
    KeywordPattern(
        ("auth=(",), rf"auth=\({QUOTE}[^\s\"'\\]{{1,80}}{QUOTE},[ ]?{QUOTE}(?P<v>[^\s\"'\\]{{6,200}}){QUOTE}"
    ),
    KeywordPattern(
        ("jwt.",),
        rf"jwt\.(?:sign|verify|encode|decode)\([^()\n]{{1,80}}?,[ ]?{QUOTE}(?P<v>[^\s\"'\\]{{16,200}})",
        "secret",
    ),
    KeywordPattern((" login ",), rf"[ \t]login[ \t](?:--?\S{{1,30}}[ \t]){{0,3}}(?P<v>{BARE}{{20,200}})", "secret"),
    KeywordPattern((" login",), rf"[ \t]login{_SAME_LINE}[ \t]-p[ \t=]?{_VALUE}"),
    # what follows the name of a command that logs in
    KeywordPattern(
        tuple(
            f"{word} "
            for word in (
                *(
                    "authorize",
                    "authenticate",
                    "unseal",
                    "authtoken",
                    "activate",
                    "auth",
                    "configure",
                    "encrypt_string",
                    "alias set",
                ),
                *("config create", "register", "set-token", "signin", "join"),
            )
        ),
        rf"[ ]?[\w -]{{4,13}}[ \t](?:[^\s|;&]{{1,200}}[ \t]){{0,4}}?[\"']?"
        rf"(?=[^\s]{{0,60}}(?-i:[a-z]))(?=[^\s]{{0,60}}(?-i:[A-Z]))(?=[^\s]{{0,60}}\d)(?P<v>(?:{BARE}){{20,200}}+)(?=\s|[\"']|\Z)",
        "drawn",
    ),
    KeywordPattern(
        ("htpasswd",), rf"htpasswd[ \t]-\w{{0,6}}b\w{{0,6}}[ \t]{_SAME_LINE}\S{{1,100}}[ \t]\S{{1,60}}[ \t]{_VALUE}"
    ),
    KeywordPattern(("/user:",), rf"/user:\S{{1,60}}[ \t]{_VALUE}"),
    KeywordPattern(
        ("echo ",),
        rf"echo[ \t](?:-n[ \t])?[\"']?[\w.-]{{1,60}}:(?P<v>{BARE}{{4,200}})[\"']?[ \t]?"
        r"\|[ \t]?\S{0,30}(?:[ \t]\S{0,30})?chpasswd",
    ),
    KeywordPattern(
        ("echo ",),
        rf"echo[ \t](?:-n[ \t])?{_VALUE}[\"']?[ \t]?\|[^\n]{{0,100}}?"
        r"(?:-stdin\b|\bsudo[ \t]-S|--with-token|\blogin\b|\bsecrets?\b|pass(?:word|wd|phrase)|cryptsetup)",
    ),
    KeywordPattern(
        ("identified ",),
        rf"identified[ \t](?:with[ \t]\S{{1,40}}[ \t])?by[ \t](?:password[ \t])?"
        rf"(?:{QUOTE})?(?P<v>(?:{BARE}|''){{4,200}})",
    ),
    KeywordPattern(
        ("| convertto-securestring",), r"[\"'](?P<v>[^\s\"']{4,100})[\"'][ ]\|[ ]convertto", back=120, ahead=12
    ),
    KeywordPattern(
        ("convertto-securestring",), rf"convertto-securestring[^\n]{{0,40}}?[ \t]{QUOTE}(?P<v>[^\s\"'\\]{{4,200}})"
    ),
    KeywordPattern(
        ("@tcp(", "@unix(", "@udp("), r"(?<![\w.-])[\w.-]{1,30}:(?P<v>[^\s:\"'`\\]{3,50})@(?:tcp|unix|udp)\(", back=82
    ),
    KeywordPattern((":thin:",), r":thin:[\w$]{1,60}/(?P<v>[^\s@\"'\\]{3,100})@"),
    KeywordPattern(('auth"', "auth\\", "_auth"), rf"auth(?:{QUOTE})?[ \t]{{0,4}}[:=][ \t]{{0,4}}{_VALUE}", "login"),
    KeywordPattern(("?code=", "&code="), r"[?&]code=(?P<v>[^\s\"'`&#\\]{20,400})", "generated"),
    KeywordPattern(("ssws ",), rf"ssws[ \t]{{1,4}}(?P<v>{_KEY_CHAR}{{20,80}})", "form"),
    KeywordPattern(("$apr1$",), r"\$apr1\$[./A-Za-z0-9]{1,8}\$(?P<v>[./A-Za-z0-9]{22})", "form"),
    KeywordPattern(
        ("pbkdf2",), r"pbkdf2[\w:.-]{0,20}\$[\w=,]{1,20}\$[^\s$]{4,100}\$(?P<v>[A-Za-z0-9+/=._-]{20,200})", "form"
    ),
    KeywordPattern(("scrypt:",), r"scrypt:[\d:]{3,30}\$[^\s$]{4,100}\$(?P<v>[A-Za-z0-9+/=._-]{20,200})", "form"),
    KeywordPattern(("{ssha", "{sha", "{smd5"), r"\{(?:ssha|sha|smd5)\d{0,3}\}(?P<v>[A-Za-z0-9+/=]{20,200})", "form"),
    KeywordPattern(
        ("authapikey(", "client("), rf"(?:authapikey|client)\({QUOTE}(?P<v>[A-Za-z0-9_-]{{30,100}}){QUOTE}", "secret"
    ),
    KeywordPattern(
        _LATIN_PASSWORDS,
        rf"\w{{1,30}}+(?:[' -]{{1,2}}\w{{1,20}}){{0,5}}?"
        rf"(?:{_ASSIGNED}(?!(?<==)[0-9A-F]{{2}}[=a-z])|[ ]?(?=[\"«“„]|\\texttt)){_VALUE}",
    ),
    KeywordPattern(
        _OTHER_PASSWORDS,
        r"[^\n!-~]{1,24}(?:[:=][ ]?)?[\"'`]?(?P<v>(?:(?![\"'`,;<>(){}\[\]\\])[!-~]){6,200})",
    ),
    # positional arguments
    KeywordPattern(
        (
            "credentials(",
            "credential(",
            "getconnection(",
            "basicauth(",
            "digestauth(",
            "connect(",
            "login(",
            "logon(",
            "signin(",
            "sign_in(",
            "auth(",
            "authenticate(",
            "authenticator(",
            "authentication(",
            "pw_set(",
            "setuser(",
        ),
        rf"\w{{4,20}}\([^()\n]{{1,200}}?,[ ]?(?:\w{{1,20}}[ ]?=[ ]?)?{QUOTE}"
        r"(?=[^\s\"'\\]{0,60}[0-9])(?![\w.-]{1,60}:\d)"
        rf"(?P<v>[^\s\"'\\/]{{6,200}}){QUOTE}[ ]?[,)]",
        "mixed",
    ),
    # files
    KeywordPattern(("]:",), r"\]:\d{2,5}[ \t]{1,8}[^\s:]{1,100}:(?P<v>[^\s\"']{4,200})", "argument"),
    KeywordPattern(
        ("@",), r"@[\w-]{1,60}(?:\.[\w-]{1,60}){1,5}:(?P<v>[^\s:/\"'<>,]{6,100})(?=\s|\\n|\Z)", "mixed"
    ),  # a list of mailboxes or hosts with their logins
    KeywordPattern(('" "',), r'" "(?P<v>(?:md5[a-f0-9]{32}|SCRAM-SHA-256\$[^\s"]{40,300}))"', "form"),
    KeywordPattern(
        ('" "',),
        rf'(?:^|[\n]|\\n)"[\w.@-]{{1,60}}" "(?P<v>[^"\s]{{8,200}})"(?=[ \t]{{0,8}}(?:{EOL}|\Z))',
        "mixed",
        back=66,
        ahead=220,
    ),
    KeywordPattern(
        (": psk ", ": xauth ", ": eap "), rf":[ ](?:psk|xauth|eap)[ ]{QUOTE}(?P<v>[^\"\n]{{6,200}}){QUOTE}", "form"
    ),
    KeywordPattern(
        ("<auth-user-pass>", "<http-proxy-user-pass>"),
        rf"<[\w-]{{8,30}}>{EOL}[^\s<]{{1,100}}{EOL}(?P<v>[^\s<]{{4,200}})",
        "form",
    ),
    KeywordPattern(("{aqaaab",), r"\{(?P<v>AQAAAB[A-Za-z0-9+/=]{20,})\}", "form"),
    KeywordPattern(
        ("random_password",),
        rf"random_password[^\x00]{{0,400}}?\bresult(?:{QUOTE})?[ ]{{0,8}}[:=][ ]{{0,8}}{QUOTE}"
        r"(?P<v>[^\s\"\\]{6,200})",
    ),
    KeywordPattern(
        ("recovery", "backup", "scratch", "emergency"),
        rf"\w{{6,9}}[ _-]?(?:pass)?codes?(?:{QUOTE})?[ ]{{0,4}}[:=][\s\[]{{0,12}}"
        r"(?P<v>(?:[\s,\"'*-]{0,12}(?:\d{1,2}[.)] )?"
        r"(?=[A-Za-z-]{0,30}\d)[A-Za-z0-9]{4,12}(?:[- ]?[A-Za-z0-9]{4,12}){0,4}){1,20}+)",
        "form",
    ),
    # options and arguments of commands
    KeywordPattern(
        ("creds", "credentials", "login", "account", "wifi", "wlan"),
        r"\w{4,12}(?:[ ][\w-]{1,20}){0,5}[ ]?(?::|is|are|=)[ ]{1,4}[^\s/:]{1,60}[ ]?[/:|][ ]?"
        r"(?P<v>[^\s\"'/,;()]{6,100})",
        "mixed",
    ),
    KeywordPattern((" pin is ", " pin code is "), r"[ ]pin(?: code)? is[ ](?P<v>\d{4,8})(?!\w)", "form"),
    KeywordPattern(("<<<",), r"<<<[ ]?[\"']?(?P<v>[^\s\"'$<]{6,200})", "mixed", needs="passwd"),
    KeywordPattern(("<(echo ", "<(printf "), r"<\((?:echo|printf)[ ](?:-n[ ])?[\"']?(?P<v>[^\s\"'$()]{6,200})[\"']?\)"),
    KeywordPattern(("net use ",), rf"net use[ ]\S{{1,60}}[ ]\S{{1,100}}[ ]{_WORD}"),
    KeywordPattern(
        (
            "server key ",
            "isakmp key ",
            "ikev1 key ",
            "radius key ",
            "server-key ",
            "tacacs key ",
            "digest-key ",
            "-server key ",
        ),
        rf"[\w-]{{5,8}}[ -]key[ ](?:\d{{1,3}}[ ])?(?:md5[ ])?(?:\d[ ])?{_WORD}",
    ),
    KeywordPattern(
        ("login ", "machine "),
        r"(?:login|machine)[ \t]{1,4}+\S{1,100}+(?:\s|\\n){1,20}+password[ \t]{1,4}(?P<v>[^\s\"',\\]{3,200})",
        "argument",
    ),
    KeywordPattern(
        (" -u", " --user", " --proxy-user", " -x", "'-u'", '"-u"', '"--user"'),
        rf"[ \"'](?:-u|--user|--proxy-user)(?:[\"'],[ ]?|[ \t=]{{1,3}}|(?=[\"'\w]))[\"']?(?=[^\d\s\"']){_LOGIN}[:%]"
        rf"(?P<v>[^\s\"']{{3,100}})",
        "password",
    ),
    KeywordPattern(("/p:", "/pass"), rf"(?<=[ \t])/p(?:ass(?:word)?)?:{_WORD}"),
    KeywordPattern((" pass:",), r"[ ]pass:(?P<v>[^\s\"'`\\$]{4,200})", "form"),
    KeywordPattern(
        ("secret set ", "secrets put ", "env add ", "config:set "),
        rf"(?:secret set|secrets put|env add|config:set)[ ]\S{{1,60}}[ =]{{1,2}}(?:(?:-b|--body|--value)[ =])?{_WORD}",
        "secret",
    ),
    KeywordPattern(
        ("wpa_passphrase", "nmcli"), rf"(?:wpa_passphrase[ \t]\S{{1,40}}|nmcli{_SAME_LINE}[ \t]password)[ \t]{_WORD}"
    ),
    KeywordPattern(
        ("sqlplus", "expdp", "impdp", "sqlldr", "rman"),
        rf"(?:sqlplus|expdp|impdp|sqlldr|rman)[ \t]{_SAME_LINE}[\w$]{{1,60}}/(?P<v>[^\s@\"'/]{{3,100}})@",
    ),
    KeywordPattern(("add_user", "change_password"), rf"(?:add_user|change_password)[ \t]\S{{1,60}}[ \t]{_WORD}"),
    KeywordPattern(("net user",), rf"net user[ \t]\S{{1,60}}[ \t]{_WORD}"),
    KeywordPattern(("sudo -s",), rf"sudo -s[^\n]{{0,60}}?<<<[ \t]?{_WORD}"),
    KeywordPattern(
        ("alias set", "config host add"),
        rf"(?:alias set|config host add)[ \t]\S{{1,60}}[ \t]\S{{1,200}}[ \t]\S{{3,128}}[ \t]{_WORD}",
        "secret",
    ),
    KeywordPattern(
        (".open ", ".open("),
        rf"\.open[ (]{_SAME_LINE},[ ]?{QUOTE}[^\s\"'\\]{{1,80}}{QUOTE},[ ]?{QUOTE}"
        rf"(?P<v>[^\s\"'\\]{{4,200}}){QUOTE}",
    ),
    KeywordPattern(
        ("login=", "login ", "auth=", "user=", "userpwd", "creds="),
        rf"\w{{4,7}}(?:[= ]|,[ ]?){QUOTE}?{_LOGIN}:(?P<v>{BARE}{{6,100}})",
        "mixed",
    ),
    KeywordPattern(("wifi:",), r"wifi:(?:[^\n]{0,100}?;)?P:(?P<v>[^;\n]{4,100});", "form"),
    KeywordPattern(
        (
            "hmac.new(",
            "aes.new(",
            "createhmac(",
            "createcipheriv(",
            "hmac(",
            "signwith(",
            "keyspec(",
            "fernet(",
            "secretbox(",
        ),
        rf"[\w.]{{4,16}}\([^()\n]{{0,60}}?[a-z]?{QUOTE}(?P<v>[^\s\"'\\]{{16,200}}){QUOTE}",
        "generated",
    ),
    KeywordPattern(("wordpress_logged_in_", "wordpress_sec_"), r"wordpress_\w{4,50}=(?P<v>[^\s;\"',]{20,400})", "form"),
    KeywordPattern(("sp_addlogin", "sp_password"), rf"sp_\w{{8}}[^\n]{{1,80}}?,[ ]?N?{QUOTE}{_WORD}{QUOTE}"),
    # what follows the id of an access key
    KeywordPattern(
        (f"{COVER}]",),
        rf"{COVER}\](?:[ \t]*[,:;|/]?[ \t]{{0,8}}{QUOTE}?|{QUOTE}[ ]?[,:][ ]?{QUOTE}"
        r"|[ ]--?\w[\w-]{0,30}[ =])"
        rf"(?P<v>[A-Za-z0-9+/=_-]{{28,128}}+)(?![^\s\"'`,;|<>)\]}}\\])",
        "drawn",
    ),
    # dialogues of protocols
    KeywordPattern(
        ("334 ugfzc3dvcmq6",),
        rf"334 UGFzc3dvcmQ6{EOL}[^\n]{{0,12}}?(?P<v>[A-Za-z0-9+/]{{6,}}={{0,2}})(?=\s|\\|\"|\Z)",
        "form",
    ),
    KeywordPattern(
        ("334 vxnlcm5hbwu6",),
        rf"334 VXNlcm5hbWU6{EOL}[^\n]{{0,80}}{EOL}[^\n]{{0,12}}?334[^\n]{{0,40}}{EOL}[^\n]{{0,12}}?"
        rf"(?P<v>[A-Za-z0-9+/]{{6,}}={{0,2}})(?=\s|\\|\"|\Z)",
        "form",
    ),
    KeywordPattern(
        ("auth plain ", "authenticate plain ", "auth login ", "auth xoauth2 ", "authenticate xoauth2 "),
        r"auth(?:enticate)? (?:plain|login|xoauth2) (?P<v>[A-Za-z0-9+/]{8,}={0,2})",
        "encoded",
    ),
    KeywordPattern(
        ("auth plain", "authenticate plain"),
        rf"auth(?:enticate)? plain{EOL}[^\n]{{0,12}}?(?:334|\+)[^\n]{{0,20}}{EOL}[^\n]{{0,12}}?"
        rf"(?P<v>[A-Za-z0-9+/]{{8,}}={{0,2}})",
        "encoded",
    ),
    KeywordPattern(
        ("mechanism=",), r"mechanism=[\"'][\w-]{3,20}[\"'][^<>\n]{0,60}>(?P<v>[A-Za-z0-9+/]{8,}={0,2})<", "form"
    ),
    KeywordPattern(
        ("pass ",), rf"{_DIALOGUE}pass[ ](?P<v>[^\s\"'<>/\\]{{4,200}})(?=[ ]?(?:{EOL}|\Z|\"|'))", needs="user"
    ),
    KeywordPattern(("pass oauth:",), r"pass oauth:(?P<v>[a-z0-9]{20,60})", "form"),
    KeywordPattern(("authinfo pass ",), rf"authinfo pass {_WORD}"),
    KeywordPattern(
        (" login ",),
        rf"(?<=\w)[ ]login[ ]{QUOTE}?[^\s\"'-][^\s\"']{{0,80}}+{QUOTE}?[ ]{QUOTE}?"
        rf"(?P<v>[^\s\"'\\]{{4,200}}+){QUOTE}?"
        rf"(?=[ ]?(?:{EOL}|\Z|\"|'))",
    ),
    KeywordPattern(("identify ",), rf"identify[ ](?:\S{{1,40}}[ ])?{_WORD}(?=\s|\\|\"|'|\Z)"),
    KeywordPattern(("oper ",), rf"{_DIALOGUE}oper[ ]\S{{1,40}}[ ]{_WORD}"),
    KeywordPattern(
        ("auth ",),
        rf"{_DIALOGUE}auth[ ](?!plain|login|xoauth2)(?:[\w.-]{{1,40}}[ ])??{QUOTE}?"
        rf"(?P<v>[^\s\"'\\]{{6,200}}){QUOTE}?(?=[ ]?(?:{EOL}|\Z|\"|'))",
    ),
    KeywordPattern(("hello 3 auth", "hello 2 auth"), rf"hello[ ][23][ ]auth[ ]\S{{1,60}}[ ]{_WORD}"),
    KeywordPattern(
        ("auth",),
        rf"auth{EOL}(?:\$\d{{1,3}}{EOL}\S{{1,60}}{EOL})??\$\d{{1,4}}{EOL}(?P<v>[^\s\"'\\]{{4,200}})(?=\s|\\|\"|\Z)",
    ),
    KeywordPattern(
        ("acl setuser", "user default on"),
        r"(?:acl setuser|user)[ ]\S{1,60}[ ][^\n]{0,100}?[>](?P<v>[^\s\"'\\]{4,200})",
    ),
    KeywordPattern(
        ("set ",),
        rf"set \S{{1,60}} \d{{1,10}} \d{{1,10}} \d{{1,4}}{EOL}(?:[^\n]{{0,12}}?[>:] )?\S{{1,60}} "
        rf"(?P<v>[^\s\"'\\]{{4,200}})(?={EOL})",
    ),
    KeywordPattern(
        ("mining.authorize",),
        r"mining\.authorize\"[^\n]{0,60}?\[\"[^\"\n]{1,80}\",[ ]?\"(?P<v>[^\"\n]{4,100})\"",
    ),
    KeywordPattern(
        ("send ",),
        rf"assword[^\n]{{0,30}}{EOL}[ \t]{{0,20}}send(?:[ ]--)?[ ]{QUOTE}(?P<v>[^\s\"'\\]{{4,200}})",
        back=60,
        ahead=200,
    ),
    # configuration of devices
    KeywordPattern(("community ",), rf"(?:server|community)[ ](?:community[ ])?(?!public\b|private\b){_WORD}"),
    KeywordPattern(
        ("password 7 ", "secret 7 ", "key 7 ", "key-string 7 ", "password 5 ", "secret 5 ", "secret 8 ", "secret 9 "),
        r"(?:password|secret|key|key-string)[ ][5789][ ](?P<v>[^\s\"']{6,200})",
        "form",
    ),
    KeywordPattern(
        ("password 0 ", "secret 0 ", "key 0 ", "key-string "), rf"(?:password 0|secret 0|key 0|key-string)[ ]{_WORD}"
    ),
    KeywordPattern(
        ("pre-shared-key ", "shared-secret ", "psk "),
        rf"(?:pre-shared-key|shared-secret|psk)[ ](?:local |remote |ascii-text )?{_WORD}",
    ),
    # parts of key files
    KeywordPattern(
        ("key-----", "private key block-----", "key v1-----"),
        rf"(?<!public )(?:private )?key(?: block| v1)?-----{EOL}?[ \t]{{0,20}}(?P<v>{_LINES})",
        "form",
    ),
    KeywordPattern(("private-lines:",), rf"private-lines:[ ]\d{{1,4}}{EOL}(?P<v>{_LINES})", "form"),
    KeywordPattern(
        ("encrypted secret key", "minisign secret", "signify secret"),
        rf"secret[^\n]{{0,40}}{EOL}(?P<v>{_LINES})",
        "form",
    ),
    KeywordPattern(
        tuple(f"{quote}{member}{quote}" for member in ("d", "p", "q", "dp", "dq", "qi", "k") for quote in ('"', "'"))
        + tuple(f'{member}\\"' for member in ("d", "p", "q", "dp", "dq", "qi", "k")),
        rf"[\"']?(?:d|p|q|dp|dq|qi|k){QUOTE}[ \t]?:[ \t]?{QUOTE}(?P<v>[A-Za-z0-9_-]{{20,}}+)",
        "generated",
        needs="kty",
    ),  # RFC 7518, section 6: the private members of a key
    KeywordPattern(
        ("aad3b435b51404eeaad3b435b51404ee:",), r"aad3b435b51404eeaad3b435b51404ee:(?P<v>[a-f0-9]{32})", "form"
    ),  # a dump of accounts: the LM hash of nothing, and the NT hash
    KeywordPattern(("userpassword::",), r"userpassword::[ ]?(?P<v>[A-Za-z0-9+/]{4,200}={0,2})", "form"),
    KeywordPattern(
        (" * ", "\t*\t"), r"[ \t]\*[ \t]{1,8}\"?(?P<v>[^\s\"'*]{8,100})\"?[ \t]{1,8}\*(?=\s|\\|\Z)", "mixed"
    ),
    KeywordPattern(
        ("_key'", "_salt'", '_key"', '_salt"'),
        r"_(?:key|salt)([\"'])[ ]?,[ ]{0,20}([\"'])(?P<v>(?:(?!\2)[^\r\n]){20,100})\2",
        "salt",
    ),
    KeywordPattern(("otpauth",), r"otpauth://[^\s\"'<>]{1,200}?[?&]secret=(?P<v>[A-Za-z2-7]{8,128})", "form"),
    KeywordPattern(
        ("sensitive",),
        rf"value[\"']?[ ]?[:=][ ]?{QUOTE}(?P<v>[^\s\"'\\]{{4,300}}){QUOTE}[^{{}}]{{0,80}}?sensitive",
        back=400,
    ),
    KeywordPattern(
        ("mnemonic", "seed phrase", "recovery phrase", "seed words"),
        rf"(?:mnemonic|seed phrase|recovery phrase|seed words)[\"']?[ ]?(?:is|[:=])[ ]?{QUOTE}?(?P<v>"
        rf"(?:[a-z]{{3,8}} ){{11,23}}[a-z]{{3,8}})",
        "form",
    ),
)
_ANY_OPTION = re.compile(r"[ ](?:[\"']?-[apxcukwsy][^a-z-]|-p|/p|setapikey)")
_BEFORE_COMMAND = re.compile(r"[^\w.-]")
_LINE_OF_COMMAND = re.compile(rf"(?:[^\n|;&\\]|\\\n|\\(?!n)){{1,{_LONGEST_COMMAND}}}")
Keywords = Mapping[str, Sequence[tuple[str, KeywordPattern]]]
"""Keywords with their patterns, by what the patterns need: that is looked for once for all of them."""


def _by_need(patterns: Iterable[KeywordPattern]) -> Keywords:
    needs: dict[str, list[tuple[str, KeywordPattern]]] = {}
    for pattern in patterns:
        needs.setdefault(pattern.needs, []).extend((word, pattern) for word in pattern.words)
    return needs


KEYWORDS = _by_need(KEYWORD_PATTERNS)
TOKEN_KEYWORDS = _by_need(TOKEN_PATTERNS)
_WHOLE_RUNS = ("bearer", "cookie", "generated", "drawn")
"""Kinds that judge a run: what is no secret from its beginning is not looked at again from a place inside it."""


@cache
def compiled(regex: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """Compile a regex when it is first used: most never are, and compiling all would make the import 5 ms slower."""
    return re.compile(regex, re.IGNORECASE if ignore_case else 0)


def find_by_keywords(patterns: Keywords, text: str, lowered: str, is_secret: SecretTest) -> list[Span]:
    """Find secrets by these patterns: the begin and end of each.

    lowered: the text in lower case, of the same length. is_secret: says whether a value looks like a secret.
    """
    return [
        span
        for need, keywords in patterns.items()
        if need in lowered
        for word, pattern in [keyword for keyword in keywords if keyword[0] in lowered]
        for span in _at_keyword(pattern, word, text, lowered, is_secret)
    ]


def find_in_commands(text: str, lowered: str, is_secret: SecretTest) -> Iterator[Span]:
    """Find the values of `COMMAND_OPTIONS`: the begin and end of each. For the arguments see `find_by_keywords`."""
    if not _ANY_OPTION.search(lowered):
        return
    for options in COMMAND_OPTIONS:
        value = compiled(rf"(?<=[ \"',\[])(?:{options.option})[\"',]{{0,3}}[ ]?{_VALUE}")
        done = 0
        for command in options.commands:
            if command not in lowered:
                continue
            for at in find_all(command, lowered):
                if at < done or (at and not _BEFORE_COMMAND.match(text, at - 1)):
                    continue
                line = _LINE_OF_COMMAND.match(text, at)
                done = line.end() if line else at
                for found in value.finditer(text, at, done):
                    if COVER not in found["v"] and _is_kind(options.kind, found["v"], is_secret):
                        yield found.span("v")
            done = 0


def _at_keyword(pattern: KeywordPattern, word: str, text: str, lowered: str, is_secret: SecretTest) -> Iterator[Span]:
    regex = compiled(pattern.regex, ignore_case=True)
    done = 0
    for at in find_all(word, lowered):
        if at < done:
            continue
        begin = max(0, at - pattern.back)
        found = regex.search(text, begin, at + pattern.ahead) if pattern.back else regex.match(text, at)
        if found is None or COVER in found["v"]:
            continue
        if _is_kind(pattern.kind, found["v"], is_secret):
            done = found.end("v")
            yield found.span("v")
        elif pattern.kind in _WHOLE_RUNS:
            done = found.end("v")


def _is_kind(kind: str, value: str, is_secret: SecretTest) -> bool:
    match kind:
        case "form":
            return True
        case "login" | "encoded":
            try:
                plain = base64.b64decode(value, validate=True)
            except binascii.Error:
                return False
            return b":" in plain[1:-1] if kind == "login" else plain.replace(b"\0", b"").isascii()
        case "bearer":
            path = value.startswith("/") or (value.count("/") > 1 and not looks_random(value[:JUDGED_CHARS]))
            return not path and _DIGIT.search(value) is not None and _LETTER.search(value) is not None
        case "cookie":
            values = (part.partition("=")[2] or part for part in value.split(";"))
            return any(looks_random(part[:JUDGED_CHARS]) or is_secret("secret", part) for part in values)
        case "generated" | "drawn":
            value = value[:JUDGED_CHARS]
            if kind == "generated":
                return looks_random(value) or has_many_humps(value) or is_secret("secret", value)
            return looks_random(value) and not value.islower() and not value.isupper()
        case "mixed":
            return looks_generated(value[:JUDGED_CHARS]) and is_secret("password", value)
        case "salt":
            return looks_generated(value[:JUDGED_CHARS]) or len(_SIGN.findall(value)) >= 4
        case _:
            return is_secret(kind, value)
