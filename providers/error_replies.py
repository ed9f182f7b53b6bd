"""Classifies error replies as ProviderErrors: from HTTP responses, from streams, and from litellm's exceptions.

Vendors report the same failure with different statuses, codes and types, or only in the message, and the body may be an
object, a list, plain text or a web page. So all words of a body are collected regardless of its structure, and tables
map them to errors, the most specific first. Sources: the error pages of the vendors' API references, and replies in
public issue trackers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any, NamedTuple

import msgspec

from .errors import (
    BadRequest,
    ContextOverflow,
    NotFound,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    TimedOut,
    Unauthorized,
    Unavailable,
)

LONGEST = 2000
"""Maximum length of a provider's error message, in characters; the rest is dropped."""
LONGEST_WAIT = 86_400.0
"""Longest wait, in seconds: longer ones are reduced to a day."""
MOST_PARTS = 500
"""Maximum number of values of a body that are examined; further ones are ignored."""

# ---- classification

_CODES: dict[type[ProviderError], str] = {
    ContextOverflow: """
        context_length_exceeded context_window_exceeded context_window_exceeded_error contextwindowexceedederror
        exceed_context_size_error model_max_prompt_tokens_exceeded max_prompt_tokens_exceeded prompt_too_long
        request_too_large string_above_max_length tokens_limit_reached input_too_long model_context_window_exceeded 1261
    """,
    QuotaExceeded: """
        insufficient_quota exceeded_current_quota_error billing_hard_limit_reached billing_not_active billing_error
        insufficient_balance insufficient_credits insufficient_funds payment_required quota_exceeded arrearage
        allocationquota.freetieronly credit_limit_reached spending_limit_reached access_terminated_error
        budgetexceedederror 1113 30001 30011 1008
    """,
    Unauthorized: """
        invalid_api_key authentication_error invalid_authentication_error unauthenticated unauthorized permission_error
        permission_denied permission_denied_error invalidapikey unrecognizedclientexception expiredtokenexception
        accessdeniedexception invalidsignatureexception missingauthenticationtokenexception account_deactivated
        authenticationerror permissiondeniederror incorrect_api_key missing_api_key expired_api_key
    """,
    NotFound: """
        model_not_found not_found not_found_error model_decommissioned model_not_available model_not_exist
        modelnotfound invalid_model deploymentnotfound resourcenotfoundexception notfounderror unsupported_model
        model_not_supported 1211
    """,
    RateLimited: """
        rate_limit_exceeded rate_limit_error rate_limit_reached_error ratelimiterror resource_exhausted
        throttlingexception throttling too_many_requests toomanyrequests toomanyrequestsexception ratelimitreached
        request_limit_exceeded servicequotaexceededexception ratelimit
    """,
    TimedOut: """
        deadline_exceeded modeltimeoutexception timeout_error timeout request_timeout requesttimeout
        vector_store_timeout
    """,
    Unavailable: """
        server_error api_error overloaded_error overloaded internal_error internal_server_error internalservererror
        unavailable unavailable_error service_unavailable serviceunavailableexception serviceunavailable
        internalserverexception modelstreamerrorexception modelnotreadyexception modelerrorexception
        engine_overloaded_error engine_overloaded backend_error upstream_error bad_gateway
    """,
    BadRequest: """
        invalid_request_error invalid_request bad_request bad_request_error badrequesterror badrequest invalid_argument
        invalidparameter invalid_parameter_error invalid_value validationexception validation validation_error
        failed_precondition out_of_range content_filter unprocessableentityerror unprocessable_entity
        contentpolicyviolationerror unsupported_value unsupported_parameter invalid_prompt invalid_encrypted_content
        bio_policy misalignment_policy_violation data_residency_mismatch invalid_image invalid_image_format
        invalid_base64_image invalid_image_url invalid_image_mode image_too_large image_too_small image_parse_error
        image_content_policy_violation image_file_too_large image_file_not_found unsupported_image_media_type
        empty_image_file failed_to_download_image
    """,
}
_MEANING: dict[str, type[ProviderError]] = {code: leaf for leaf, codes in _CODES.items() for code in codes.split()}
"""Error class by code, type, status or reason, in lower case."""
_IN_TEXT = {
    code: leaf
    for code, leaf in _MEANING.items()
    if leaf in (ContextOverflow, QuotaExceeded, Unauthorized) and "_" in code
}
"""Codes that also count inside a message, as in a gateway's message about another server's error."""

_INPUT = r"(?:prompt|input|inputs|request|request body|payload|messages?|conversation|history|content)"
_OVERFLOW = rf"""(?ix)
      context[ _-]?(?:length|window|size|limit) | (?:maximum|max)[ ](?:prompt|input)[ ](?:length|tokens)
    | model[ ](?:token|context)[ ]limit | maximum[ ]model[ ]length | max_seq_len | max_model_len
    | \b{_INPUT}\b[^.:;]{{0,80}}?\b(?:too[ ](?:long|large|big)|longer[ ]than|larger[ ]than)
    | \b{_INPUT}[ ](?:length|tokens?(?:[ ]count)?|size)\b[^.;]{{0,80}}?\b(?:exceed|greater|more[ ]than|only[ ]supports)
    | \b{_INPUT}[ ]exceeds?\b[^.;]{{0,40}}?(?:length|token|limit|context)
    | range[ ]of[ ]input[ ]length | reduce[ ]the[ ]length[ ]of | reduce[ ]your[ ](?:prompt|message)
    | too[ ]many[ ](?:input[ ]|prompt[ ])?tokens | token[ ]limit[ ]exceeded | messages[ ]resulted[ ]in
    | exceeds?[ ]the[ ]maximum[ ]number[ ]of[ ]tokens | max[ ]message[ ]tokens
    | `?inputs`?[ ](?:tokens[ ]\+|must[ ]have[ ]less)
    | input[ ]or[ ]output[ ]tokens[ ]must[ ]be[ ]reduced | string[ ]too[ ]long | entity[ ]too[ ]large
    | n_keep\b.{{0,99}}n_ctx | 超长 | 过长 | (?:超过|超出).{{0,16}}(?:长度|上下文) | (?:长度|上下文).{{0,16}}(?:超|上限)
    """
_NO_OVERFLOW = r"""(?ix)
      \b(?:image|audio|video|picture|pdf|file|attachment|upload)\b | request[ ]rate | context[ ]cach
    | requests?[ ]per | (?:please[ ])?wait[ ]before | tool[ _]?names? | function\.name
    | context[ ](?:window|size|length)[^.]{0,20}too[ ]small
    """
"""Pattern for messages that match `_OVERFLOW` but mean something else: a file is too large, or there were too many
requests. A shorter conversation would not help."""
_OUTPUT_ALONE = r"(?i)completion tokens, whereas|allowed number of output tokens|tokens you requested exceed"
_WAIT_MENDS = r"(?i)try again in|retry (?:in|after)|, used \d|wait before|too many requests|per[- ]minute|rate[- ]limit"
_TOO_LARGE = r"(?i)too large|must be reduced|reduce your (?:message|prompt)"

_TEXTS: tuple[tuple[type[ProviderError], str], ...] = (
    (
        QuotaExceeded,
        r"""(?ix)
              insufficient[ _](?:balance|credits?|funds?|quota) | (?:balance|credits?|funds)[^.]{0,40}?
              (?:insufficient|too[ ]low|exhausted|depleted|not[ ]enough|run[ ]out|used[ ]up)
            | exceeded[ ]your[ ](?:current|monthly)[ ](?:quota|usage) | (?:spend|spending|billing|hard|budget)[ ]limit
            | used[ ]all[ ]available[ ]credits | requires[ ]more[ ]credits | payment[ ]required | usage[ ]limits?\b
            | (?:out[ ]of|no)[ ]credits | please[ ](?:recharge|top[ ]up) | good[ ]standing | requires[ ]paid[ ]balance
            | 欠费 | 余额.{0,8}不足 | 充值 | 额度.{0,8}(?:不足|用完|耗尽) | 用量上限
            """,
    ),
    (
        Unauthorized,
        r"""(?ix)
              api[ _-]?key[^.]{0,30}?(?:not[ ](?:valid|found)|invalid|incorrect|missing|expired
              |required|disabled|revoked)
            | (?:invalid|incorrect|missing|no|expired|wrong)[ ](?:x-)?(?:api[ _-]?key|access[ ]token|auth)
            | security[ ]token[^.]{0,60}(?:invalid|expired) | unauthori[sz]ed | organization[ ]has[ ]been[ ]disabled
            | authentication[ ](?:failed|required|error) | not[ ]authori[sz]ed | do(?:es)?[ ]not[ ]have[ ]permission
            """,
    ),
    (
        NotFound,
        r"""(?ix)
              \bmodels?\b[^.]{0,80}?\b(?:not[ ]found|(?:does[ ])?not[ ]exist|doesn't[ ]exist
              |no[ ]longer[ ](?:available|supported)
              |decommissioned|identifier[ ]is[ ]invalid|is[ ]not[ ]available|not[ ]loaded)
            | not[ ]a[ ]valid[ ]model | (?:invalid|unknown|no[ ]such)[ ]model\b | no[ ]endpoints[ ]found | 模型不存在
            """,
    ),
    (
        RateLimited,
        r"(?i)rate.?limit|too many (?:requests|tokens)|throttl|rate exceeded|requests per|slow down|频率|并发",
    ),
    (Unavailable, r"(?i)overloaded|internal server error|temporarily unavailable|at capacity"),
)
_PER_DAY = r"(?i)per[ _-]?day|daily"


class ErrorReply(NamedTuple):
    """Content of an error reply's body."""

    message: str
    """The provider's message, for people."""
    text: str
    """All texts of the body, up to `LOOKED_AT` characters."""
    codes: tuple[str, ...]
    """Codes, types, statuses and reasons, in lower case."""
    status: int | None
    """The HTTP status in the body, for errors in mid-stream."""
    retry_after: float | None
    """Seconds to wait before a retry, if the body says so."""


def classify(status: int | None, said: ErrorReply) -> type[ProviderError]:
    """Return the error class of a reply. `status`: the HTTP status; None if the response began successfully."""
    status = status if status is not None and status >= 400 else said.status
    codes = {_MEANING[code] for code in said.codes if code in _MEANING}
    codes |= {leaf for code, leaf in _IN_TEXT.items() if code in said.text}
    if status == 402:
        return QuotaExceeded
    if status in (401, 403, 404):
        return _refused(status, said, codes)
    if ContextOverflow in codes or status == 413 or _overflows(said.text):
        return ContextOverflow
    if QuotaExceeded in codes or _out_of_quota(said, codes, status):
        return QuotaExceeded
    if status == 429:
        return RateLimited
    if status in (408, 504, 522, 524):
        return TimedOut
    if status is not None and status >= 500:
        return TimedOut if TimedOut in codes else Unavailable
    specific: tuple[type[ProviderError], ...] = (Unauthorized, NotFound, RateLimited, TimedOut)
    for leaf in specific:
        if leaf in codes:
            return leaf
    if status is None and Unavailable in codes:
        return Unavailable
    for leaf, pattern in _TEXTS:
        if re.search(pattern, said.text):
            return leaf
    if status is not None or BadRequest in codes:
        return BadRequest
    return Unavailable


def _refused(status: int, said: ErrorReply, codes: set[type[ProviderError]]) -> type[ProviderError]:
    """Classify 401, 403 and 404 as no credit, no permission or no model."""
    if QuotaExceeded in codes or re.search(_TEXTS[0][1], said.text):
        return QuotaExceeded
    if status == 404:
        return NotFound
    if RateLimited in codes and Unauthorized not in codes:
        return RateLimited
    return NotFound if NotFound in codes and status == 403 else Unauthorized


def _overflows(text: str) -> bool:
    if not re.search(_OVERFLOW, text) or re.search(_OUTPUT_ALONE, text):
        return False
    if re.search(_WAIT_MENDS, text) and not re.search(_TOO_LARGE, text):
        return False
    return not re.search(_NO_OVERFLOW, text) or "max message tokens" in text.lower()


def _out_of_quota(said: ErrorReply, codes: set[type[ProviderError]], status: int | None) -> bool:
    """Return whether the quota is used up. Google uses the same words for limits per minute, which are rate limits."""
    if status is not None and status >= 500:
        return False
    if re.search(_PER_DAY, said.text) and (RateLimited in codes or status == 429):
        return "try again in" not in said.text.lower()
    return bool(re.search(_TEXTS[0][1], said.text)) and "resource_exhausted" not in said.codes


def build_error(
    said: ErrorReply, *, status: int | None = None, headers: Mapping[str, str] | None = None, where: str = ""
) -> ProviderError:
    """Build the error for a reply, whose message starts with `where`."""
    leaf = classify(status, said)
    retry_after = _from_headers(headers) if headers else None
    if retry_after is None:
        retry_after = said.retry_after
    if retry_after is None and headers and leaf is RateLimited:
        retry_after = _from_limits(headers)
    known = status if status is not None and status >= 400 else said.status
    return leaf(f"{where}{said.message}", status=known, retry_after=retry_after)


# ---- reading a body

_MESSAGES = ("message", "msg", "detail", "error_message", "errormessage", "status_msg", "error", "description", "title")
_CODE_NAMES = frozenset(
    {"code", "type", "status", "reason", "error_type", "error_code", "errortype", "errorcode", "__type", "object"}
    | {"statuscode", "status_code", "http_status", "http_code"}
)
LOOKED_AT = 100_000
"""Maximum number of characters of an error's texts that are searched for its meaning."""
_TAGS = r"(?is)<(script|style)\b.*?(?:</\1>|\Z)|<[^<>]*>"
_WAITS = {"retrydelay": 1.0, "retry_after": 1.0, "retryafter": 1.0, "retry_after_seconds": 1.0, "retry_after_ms": 0.001}


def parse_error_body(body: bytes | str, headers: Mapping[str, str] | None = None) -> ErrorReply:
    """Parse the body of an error reply: JSON, plain text or HTML."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        value = text.strip()[: 4 * LONGEST] or None
    return parse_error_value(value, headers)


def parse_error_value(value: Any, headers: Mapping[str, str] | None = None) -> ErrorReply:
    """Parse a decoded JSON value, or a text, as the body of an error reply."""
    messages: dict[str, str] = {}
    texts: list[str] = []
    codes: list[str] = []
    status: int | None = None
    wait: float | None = None
    for name, part in _parts(value):
        if isinstance(part, bool) or part is None:
            continue
        if isinstance(part, str):
            begins = part[:LOOKED_AT]
            texts.append(begins if begins[:1] != "<" else " ".join(unescape(re.sub(_TAGS, " ", begins)).split()))
            if part.strip() and (name in _MESSAGES or part is value):
                messages.setdefault(name, part.strip())
        if name in _WAITS and wait is None:
            wait = _seconds(str(part), _WAITS[name])
        if name in _CODE_NAMES and isinstance(part, str | int | float):
            word = str(part).rpartition("#")[2].strip().lower()
            codes.append(word)
            if status is None and re.fullmatch("[45][0-9][0-9]", word):
                status = int(word)
    for name in ("x-amzn-errortype", "x-amzn-error-type"):
        if headers and name in headers:
            codes.append(headers[name].partition(":")[0].lower())
    text = "\n".join(texts)[:LOOKED_AT]
    message = next((messages[name] for name in _MESSAGES if name in messages), messages.get("", ""))
    raw = next((part for name, part in _parts(value) if name == "raw" and isinstance(part, str)), "")
    if raw and raw not in message:
        message = f"{message}: {raw}"
    if not message:
        message = "(no message)" if value in ("", None, {}, []) else _shown(value)
    return ErrorReply(message[:LONGEST], text, tuple(codes), status, _from_text(text) if wait is None else wait)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield all values with their names in lower case, breadth first; JSON inside strings is parsed, too."""
    waiting: list[tuple[str, Any]] = [("", value)]
    for number, (name, part) in enumerate(waiting):
        if number >= MOST_PARTS:
            return
        if isinstance(part, dict):
            waiting += [(str(key).lower(), inner) for key, inner in part.items()]
        elif isinstance(part, list | tuple):
            waiting += [(name, inner) for inner in part]
        else:
            yield name, part
            if isinstance(part, str) and part.lstrip()[:1] in ("{", "["):
                try:
                    waiting.append((name, msgspec.json.decode(part)))
                except (msgspec.DecodeError, RecursionError, ValueError):
                    continue


def _shown(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError):
        return repr(value)


# ---- how long to wait

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = r"(?:\d+(?:\.\d+)?(?:ms|[hms])\s*)+"
_IN_WORDS = (
    rf"(?i)(?:try again|retry|wait|reset)\w{{0,9}}(?:\s++(?:in|after|for|about|at least))*\s++"
    rf"(?:(?P<short>{_DURATION})|(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>milliseconds?|seconds?|secs?|minutes?|mins?|hours?))"
)


def _bounded(seconds: float) -> float | None:
    return min(max(0.0, seconds), LONGEST_WAIT) if seconds == seconds else None  # not NaN


def _seconds(text: str, unit: float = 1.0) -> float | None:
    """Parse a duration such as `7`, `1.5`, `31s`, `6m0s` or `20ms`; a plain number counts `unit` seconds each."""
    text = text.strip().lower()
    try:
        return _bounded(float(text) * unit)
    except ValueError:
        pass
    if not re.fullmatch(_DURATION, text):
        return None
    return _bounded(sum(float(n) * _UNITS[u] for n, u in re.findall(r"(\d+(?:\.\d+)?)(ms|[hms])", text)))


def _from_headers(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait according to the header Retry-After or its variants in milliseconds.

    Returns None without such a header. Retry-After is a number of seconds or a date (RFC 9110, section 10.2.3).
    """
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        if (found := _seconds(headers.get(name, ""), 0.001)) is not None:
            return found
    given = headers.get("retry-after", "")
    found = _seconds(given)
    return _until_date(given, headers) if found is None and given else found


def _until_date(given: str, headers: Mapping[str, str]) -> float | None:
    try:
        at = parsedate_to_datetime(given)
        now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
        return _bounded((_aware(at) - _aware(now)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _from_limits(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until a used-up rate limit is reset (`x-ratelimit-reset-*` and Anthropic's names for it)."""
    waits: list[float] = []
    for name, value in headers.items():
        name = name.lower()
        if "ratelimit" not in name or "reset" not in name:
            continue
        remaining = headers.get(name.replace("reset", "remaining"), "0")
        if remaining.strip() in ("0", "0.0", "") and (seconds := _until(value)) is not None:
            waits.append(seconds)
    return max(waits, default=None)


def _until(value: str) -> float | None:
    """Return the seconds until a time: a duration, a Unix time in seconds or milliseconds, or a date (RFC 3339)."""
    value, now = value.strip(), datetime.now(UTC)
    try:
        number = float(value)
    except ValueError:
        try:
            return _bounded((_aware(datetime.fromisoformat(value.replace("Z", "+00:00"))) - now).total_seconds())
        except ValueError:
            return _seconds(value)
    if number > 1e11:
        number /= 1000
    return _bounded(number - now.timestamp() if number > 1e9 else number)


def _from_text(text: str) -> float | None:
    found = re.search(_IN_WORDS, text[: 4 * LONGEST])
    if found is None:
        return None
    if found["short"]:
        return _seconds(found["short"].replace(" ", ""))
    unit = found["unit"].lower()
    scale = 0.001 if unit.startswith("milli") else 3600.0 if unit[0] == "h" else 60.0 if unit[0] == "m" else 1.0
    return _bounded(float(found["number"]) * scale)
