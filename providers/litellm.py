"""Adapter for litellm and all providers that it supports. The only module that imports litellm, on first use.

litellm takes four seconds to import, fetches prices from the network, prints on errors and retries by itself; all of
that is switched off here. docs/explanation/provider_checks.md lists the problems in litellm that cannot be fixed here.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from time import monotonic
from typing import Any

import anyio.to_thread

from ..decision import AnyChunk, FinishReason, FinishReport, UsageReport, WrongUse
from ..decision.errors import missing_extra, similar
from ..decision.finish_words import check_finish_words
from ..decision.wrong_calls import checked
from ._wrapper import wait_shielded
from .cache_marks import CacheMarks
from .endpoint_hints import EndpointAddress
from .endpoint_url import mask_url, public_url, split_credentials
from .error_replies import ErrorReply, build_error, parse_error_body, parse_error_value
from .errors import ContextOverflow, Interrupted, NotFound, ProtocolError, ProviderError, TimedOut, Unreachable, redact
from .http_provider import LARGEST_RESPONSE
from .litellm_stream import (
    CURRENT_STREAM,
    CurrentStream,
    LiteLLMReader,
    MutedTokenCounter,
    ReceivedBytes,
    RecordingFinishMap,
    chunk_length,
    end_generator,
    iterate_once,
)
from .openai_format import (
    EncodedSession,
    PicturePlacement,
    ReasoningFormat,
    encode_message,
    encode_pictures,
    encode_tools,
)
from .provider import Request, check_model, check_settings
from .timeouts import BETWEEN_SECONDS, FIRST_SECONDS, Watchdog

CLOSING_SECONDS = 2.0
"""Maximum seconds for closing a stream, after which it is abandoned."""
SLICE_SECONDS = 0.002
"""Maximum seconds of reading one response before other tasks get a turn: about fifteen litellm chunks."""
OTHER_KEYS = frozenset({"azure", "bedrock", "ollama", "ollama_chat", "sagemaker", "vertex_ai"})
"""Providers that may find credentials elsewhere: a missing key is not reported before a request."""
OPENROUTER = "openrouter/"
COUNTING = ("anthropic.chat.transformation", "bedrock.chat.converse_transformation")
"""litellm modules that count tokens only to estimate reasoning tokens (seen in 1.103.0 to 1.109.1)."""


@checked
class LiteLLM:
    """A model by its litellm name, such as `anthropic/claude-sonnet-4-5`.

    - `api_base`: URL of an endpoint, taken as OpenAI-compatible unless the model's name says otherwise. No key is
      required then. A redirect to another host is not followed.
    - `api_key`: the key; by default the environment variable in which litellm looks for it.
    - `first_timeout`: seconds to the first content of a response (default 600). `timeout`: seconds from one piece of
      content to the next (default 120); given alone, it also applies to the first.
    - `largest_response`: bytes of a response after decompression, or characters where litellm does not ask over HTTP;
      a larger one is an error of kind `protocol`.
    - `settings`: sent in every request (`temperature`, `max_tokens`, ...).
    - `cache`: whether to mark the stable part of a session for the provider's prompt cache, where the model supports
      such marks (Claude).
    - `images`: whether the model can see; by default images of prompts are sent, and those of tool results if litellm
      says that the model can.
    - `finish_words`: finish words of the provider that the table lacks or interprets differently: `{"done": "stop"}`.
    - `reports_cost`: whether usage includes the cost, so that a limit on cost works without a known price; by default
      True for OpenRouter.

    Raises WrongUse for an argument that cannot work, or if litellm is not installed (`pip install "endstop[litellm]"`).
    Entering it raises WrongUse if litellm does not know the provider, or if a key is missing; the message names the
    environment variable.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        first_timeout: float | None = None,
        largest_response: int = LARGEST_RESPONSE,
        settings: Mapping[str, Any] | None = None,
        cache: bool = True,
        images: bool | None = None,
        finish_words: Mapping[str, FinishReason] | None = None,
        reports_cost: bool | None = None,
    ) -> None:
        if api_base and split_credentials(api_base)[1]:
            raise WrongUse(
                f"api_base {mask_url(api_base)!r} contains a user, which litellm cannot send: "
                "leave it out and give a key, or use OpenAICompatible (--provider openai)"
            )
        self.model = check_model(model, "LiteLLM('openai/gpt-4o')")
        if find_spec("litellm") is None:
            raise missing_extra(f"model {model!r} is reached through litellm, which is not installed", "litellm")
        self._api_base = api_base
        self._api_key = api_key
        between = BETWEEN_SECONDS if timeout is None else timeout
        first = first_timeout if first_timeout is not None else timeout or FIRST_SECONDS
        for name, given in (("timeout", between), ("first_timeout", first)):
            if not given > 0:
                raise WrongUse(f"{name} is {given}: use seconds above 0")
        self._timeouts = (first, between)
        self._largest = largest_response
        self._settings = check_settings(settings, as_json=False)
        self._images = images
        self._finish_words = check_finish_words(finish_words)
        self._marks = cache and supports_cache_marks(model)
        self.reports_cost = model.startswith(OPENROUTER) if reports_cost is None else reports_cost
        self._fixed: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"LiteLLM({self.model!r})"

    @property
    def endpoint(self) -> str:
        """The `api_base` without secrets, for records; empty if litellm knows the URL."""
        return public_url(self._api_base or "")

    async def __aenter__(self) -> LiteLLM:
        if self._fixed is None:
            self._fixed = self._check(await anyio.to_thread.run_sync(_import))
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Do nothing: litellm's clients belong to the whole process, and others may be using them."""

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open one response. Raises ProviderError."""
        async with self:
            litellm = _import()
            reader = LiteLLMReader(signs=self._thinking in ("signed", "details"), words=self._finish_words)
            ours = CurrentStream(reader.rewritten, ReceivedBytes(self._largest))
            watchdog = Watchdog(*self._timeouts)
            CURRENT_STREAM.set(ours)  # without streaming, the whole response is read here
            try:
                response = await watchdog.wait_for(litellm.acompletion(**self._arguments(request)))
            except TimeoutError as error:
                watchdog.close()
                raise TimedOut(f"{self.model} gave no response for {watchdog.seconds:g} s") from error
            except Exception as error:
                watchdog.close()
                raise self._translate(error, ours, streaming=False) from None  # it quotes the key
            finally:
                CURRENT_STREAM.set(None)
            stream = iterate_once(response)
            chunks = self._chunks(response, reader, watchdog, ours)
            try:
                yield chunks
            finally:
                watchdog.close()
                await _close_shielded(partial(_close, chunks, response, stream, ours.received))

    def _check(self, litellm: Any) -> dict[str, Any]:
        """Return the arguments shared by all requests. Raises WrongUse for an unknown provider or a missing key."""
        fixed: dict[str, Any] = {
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_retries": 0,
            "num_retries": 0,
            "drop_params": True,
            "timeout": max(self._timeouts),  # litellm's, between two reads; the waits for content are timed here
        }
        model = self.model
        try:
            litellm.get_llm_provider(model=model)
        except Exception as error:
            if self._api_base is None:
                raise WrongUse(
                    f"litellm knows no provider for model {model!r}{_provider_hint(model, litellm)}: write it as "
                    "provider/model, as in 'openai/gpt-4o', or give api_base for an OpenAI-compatible endpoint"
                ) from error
            model = f"openai/{model}"
        fixed["model"] = model
        if self._api_base is not None:
            fixed["api_base"] = self._api_base
        if self._api_key is not None:
            fixed["api_key"] = self._api_key
        elif litellm.get_llm_provider(model=model)[1] not in OTHER_KEYS:
            missing = litellm.validate_environment(model=model).get("missing_keys") or _blank_keys(litellm, model)
            if missing and self._api_base is None:
                raise WrongUse(f"model {model!r} needs a key: set {' or '.join(missing)}")
            if missing:
                fixed["api_key"] = "none"  # litellm requires a key; it finds one that is set by itself
        return fixed

    def _arguments(self, request: Request) -> dict[str, Any]:
        if self not in request.memo:
            where = self._pictures
            encode = partial(encode_message, thinking=self._thinking, pictures=where)
            request.memo[self] = (
                EncodedSession(encode, encode_tools, encode_pictures if where == "after" else None),
                CacheMarks(),
            )
        encoded, marks = request.memo[self]
        messages, tools = encoded.messages(request), encoded.tools(request)
        if self._marks:
            messages = mark_messages(messages, marks, len(messages) - len(request.ephemeral), request.edition)
            tools = mark_last_tool(tools)
        arguments: dict[str, Any] = {**(self._fixed or {}), **self._settings, **request.settings}
        arguments["messages"] = messages
        if tools:
            arguments["tools"] = tools
            arguments["tool_choice"] = request.tool_choice
        return arguments

    async def _chunks(
        self, response: Any, reader: LiteLLMReader, watchdog: Watchdog, ours: CurrentStream
    ) -> AsyncGenerator[AnyChunk]:
        chunks = aiter(response)
        gave_way = monotonic()
        size = 0
        try:
            while True:
                CURRENT_STREAM.set(ours)
                try:
                    chunk = await watchdog.wait_for(anext(chunks))  # litellm's own do not cover every provider
                finally:
                    CURRENT_STREAM.set(None)
                for part in (*reader.stated(_kept_chunks(response)), *reader.read(chunk)):
                    if isinstance(part, FinishReport) and _is_invented_finish(response):
                        raise self._missing_finish(reader)
                    if not isinstance(part, UsageReport):
                        watchdog.content_received()
                        size += chunk_length(part)
                    if size > self._largest:
                        raise ProtocolError(
                            f"{self.model}: the response is larger than {self._largest} characters: "
                            "if that is intended, raise largest_response"
                        )
                    yield part
                if monotonic() - gave_way > SLICE_SECONDS:
                    await asyncio.sleep(
                        0
                    )  # litellm never yields while data is buffered, which would starve other tasks
                    gave_way = monotonic()
        except StopAsyncIteration:
            return
        except ProviderError:
            raise
        except TimeoutError as error:
            for part in reader.stated(_kept_chunks(response)):
                yield part
            raise TimedOut(f"{self.model} sent no content for {watchdog.seconds:g} s") from error
        except Exception as error:
            if reader.finished:
                return  # the connection failed after the end (raised since 1.109): the response is complete
            for part in reader.stated(_kept_chunks(response)):
                yield part
            raise self._translate(error, ours, streaming=True) from None  # it quotes the key
        finally:
            watchdog.close()

    def _translate(self, error: Exception, ours: CurrentStream, *, streaming: bool) -> ProviderError:
        """Return the ProviderError for an exception of litellm: our own error, if that is why the response ended."""
        if ours.received.error is not None:
            return ProtocolError(f"{self.model}: {ours.received.error.message}")
        return translate_error(error, self.model, self._api_key, streaming=streaming)

    def _missing_finish(self, reader: LiteLLMReader) -> ProviderError:
        if reader.has_content:
            return Interrupted(f"{self.model}: the stream ended without a finish reason")
        return Interrupted(f"{self.model}: the response ended without content, or it is not a stream")

    @property
    def _pictures(self) -> PicturePlacement:
        """Where images of a result are sent: inside it for Claude, except through OpenRouter, whose format cannot."""
        sees = bool(_import().supports_vision(model=self.model)) if self._images is None else self._images
        if not sees:  # the user's images are sent, unless it is known that the model cannot see them
            return "prompt" if self._images is None else "none"
        return "inside" if supports_cache_marks(self.model) and not self.model.startswith(OPENROUTER) else "after"

    @property
    def _thinking(self) -> ReasoningFormat:
        """How reasoning is sent back. For unsigned reasoning, litellm makes up a signature on every fragment."""
        if any(name in self.model for name in ("anthropic", "claude", "bedrock")):
            return "details" if self.model.startswith(OPENROUTER) else "signed"
        return "text" if self.model.startswith(("deepseek/", "moonshot/")) else "none"


def _is_invented_finish(response: Any) -> bool:
    """Return whether litellm made up the finish reason.

    It reports `stop` for a body that ended early (seen in 1.105.3).
    """
    known = getattr(response, "received_finish_reason", ""), getattr(response, "intermittent_finish_reason", None)
    return known == (None, None)


def _kept_chunks(response: Any) -> Sequence[Any]:
    """Return the chunks that litellm keeps of a response. Their usage is otherwise available only at the end."""
    return getattr(response, "chunks", None) or ()


def _blank_keys(litellm: Any, model: str) -> list[str]:
    """Return the variables for this provider's key that are set but empty, which litellm would take as keys."""
    own = "".join(sign for sign in litellm.get_llm_provider(model=model)[1].upper() if sign.isalnum())
    names = ("GEMINI", "GOOGLE") if own == "GEMINI" else (own,)
    keys = [n for n in os.environ if n.endswith("KEY") and n.replace("_", "").upper().startswith(names)]
    return [] if any(os.environ[name].strip() for name in keys) else sorted(keys)


def _import() -> Any:
    # Set before the import: otherwise litellm fetches prices from the network and loads any `.env` above its folder.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True  # otherwise litellm prints to stdout on every error
    litellm.REPEATED_STREAMING_CHUNK_LIMIT = 10**9  # otherwise 100 equal fragments raise an error
    from .litellm_http import bound_requests

    bound_requests()
    litellm.disable_hf_tokenizer_download = True  # otherwise some model names make litellm query a model hub
    _record_finish_words(importlib.import_module("litellm.litellm_core_utils.core_helpers"))
    for module in COUNTING:
        _mute_token_counter(importlib.import_module(f"litellm.llms.{module}"))
    return litellm


def _record_finish_words(helpers: Any) -> None:
    """Replace litellm's map of finish reasons with a `RecordingFinishMap`, once. Its results stay the same."""
    table = getattr(helpers, "_FINISH_REASON_MAP", None)
    if type(table) is dict:
        helpers._FINISH_REASON_MAP = RecordingFinishMap(table)


def _mute_token_counter(module: Any) -> None:
    """Replace a module's token counter with a `MutedTokenCounter`, once. For others its results stay the same."""
    count = getattr(module, "token_counter", None)
    if count is not None and not isinstance(count, MutedTokenCounter):
        module.token_counter = MutedTokenCounter(count)


async def _close_shielded(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Close within `CLOSING_SECONDS`, and again if cancelled: the end of an event loop cancels every task."""
    closing = asyncio.ensure_future(close())
    try:
        await wait_shielded(closing, CLOSING_SECONDS)
    finally:
        if closing.cancelled():
            await wait_shielded(asyncio.ensure_future(close()), CLOSING_SECONDS)
        elif closing.done():
            closing.exception()  # retrieve the exception: a stream that cannot be closed is not an error


async def _close(chunks: AsyncGenerator[AnyChunk], response: Any, stream: Any, received: ReceivedBytes) -> None:
    """Close the connection, whatever holds it, and all generators that read from it: litellm leaves some open."""
    await chunks.aclose()
    for body in received.bodies:
        await body.aclose()
    stream = getattr(response, "completion_stream", None) or stream  # 1.109 drops the response at its end
    for reading in (getattr(stream, "events", None), getattr(stream, "streaming_response", stream)):
        if received.bodies and hasattr(reading, "__anext__"):
            await end_generator(reading)
    if hasattr(response, "aclose"):
        await response.aclose()


def _provider_hint(model: str, litellm: Any) -> str:
    """Return a hint for a misspelt provider in the model's name."""
    name, slash, _ = model.partition("/")
    known = [str(getattr(one, "value", one)) for one in getattr(litellm, "provider_list", ())]
    return similar(name, known) if slash and name not in known else ""


# ---- litellm's exceptions

_PREFIX = re.compile(r"^(litellm\.\w+: *|\w+Error: *|\w+Exception - *)+")
_SSL = re.compile(r" ssl:(<[^<>]*>|\w+)")
_LONGEST = 2000
_REFUSED = {"ConnectError", "ClientConnectorError", "ClientConnectorDNSError", "ConnectionRefusedError"}


def translate_error(error: Exception, model: str, key: str | None, *, streaming: bool) -> ProviderError:
    """Translate an exception of litellm into a ProviderError. `streaming`: whether the response had begun.

    Classes are compared by name, so litellm is not imported. litellm raises a refused connection as
    InternalServerError. In a stream nearly everything is a MidStreamFallbackError with the cause in
    `original_exception`, and some providers' errors escape as ValueError or KeyError, so every exception is translated.
    """
    cause: BaseException = getattr(error, "original_exception", None) or error
    names = {type(link).__name__ for link in _chain(error)}
    message = f"{model}: {_clean(str(getattr(cause, 'message', None) or cause), key)}"
    if "ContextWindowExceededError" in names:
        return ContextOverflow(message, status=400)
    if names & {"Timeout", "APITimeoutError", "TimeoutError", "ReadTimeout", "ServerTimeoutError"}:
        return TimedOut(message)
    refused = next((link for link in _chain(error) if type(link).__name__ in _REFUSED), None)
    if refused is not None:
        return Unreachable(
            f"{model}: cannot connect: {_clean(str(refused), key)}{EndpointAddress().after_error(error)}"
        )
    redirect = next((link for link in _chain(error) if type(link).__name__ == "RedirectToOtherHost"), None)
    if redirect is not None:
        return NotFound(f"{model}: {redirect}")
    headers = _headers(error)
    body = _body(error)
    if streaming and body is not None:  # an error in place of a chunk: the status is litellm's own
        said = parse_error_value(body)
        message = message if said.message in message else f"{model}: {_clean(said.message, key)}"
        return build_error(said._replace(message=message), headers=headers)
    if streaming and not _was_answered(cause):
        return Interrupted(message)
    said = (
        _parse_message(str(getattr(cause, "message", None) or cause))
        if body is None
        else parse_error_value(body, headers)
    )
    return build_error(said._replace(message=message), status=_status(error), headers=headers)


def _status(error: BaseException) -> int | None:
    """Return the status of the reply.

    It is the last status in the chain, because litellm's own errors have statuses, too.
    """
    statuses = [getattr(link, "status_code", None) for link in _chain(error)]
    return next((s for s in reversed(statuses) if isinstance(s, int) and 400 <= s <= 599), None)


def _body(error: BaseException) -> Any:
    """Return the reply's body, which the OpenAI client inside litellm keeps as `body`; None if there is none."""
    bodies = (getattr(link, "body", None) for link in _chain(error))
    return next((body for body in bodies if isinstance(body, dict | list | str) and body), None)


def _parse_message(text: str) -> ErrorReply:
    """Parse an error message, or the provider's reply quoted in it."""
    for begin in ("{", "["):
        quoted = parse_error_body(text[text.find(begin) :]) if begin in text else None
        if quoted is not None and quoted.codes:
            return quoted
    return parse_error_body(text)


def _was_answered(cause: BaseException) -> bool:
    """Return whether the provider sent an error object in the stream. If not, the stream was cut off."""
    return type(cause).__name__ in {
        "AuthenticationError",
        "BadRequestError",
        "ContentPolicyViolationError",
        "NotFoundError",
        "PermissionDeniedError",
        "RateLimitError",
        "ServiceUnavailableError",
    }


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += [link.__cause__, link.__context__, getattr(link, "original_exception", None)]


def _headers(error: BaseException) -> Mapping[str, str] | None:
    for link in _chain(error):
        for headers in (getattr(link, "litellm_response_headers", None), _headers_of(link)):
            if headers:
                return headers
    return None


def _headers_of(link: BaseException) -> Mapping[str, str] | None:
    headers: Mapping[str, str] | None = getattr(getattr(link, "response", None), "headers", None)
    return headers


def _clean(text: str, key: str | None) -> str:
    """Return the provider's message without litellm's prefixes, tracebacks, and any key of the environment."""
    text = _PREFIX.sub("", text.split("\nTraceback", 1)[0].strip())
    text = _SSL.sub("", text)
    for name, value in os.environ.items():
        if name.endswith(("_KEY", "_TOKEN", "_SECRET")) and len(value) >= 8:
            text = redact(text, value)
    return redact(text, key)[:_LONGEST]


# ---- marks for the prompt cache

MARK = {"cache_control": {"type": "ephemeral"}}
WIRES = ("anthropic", "bedrock", "vertex_ai", "openrouter")
"""litellm's names of the Claude providers that support marks; others might reject them."""


def supports_cache_marks(model: str) -> bool:
    """Return whether a model, by its litellm name, supports marks for the prompt cache."""
    wire, _, name = model.partition("/")
    return wire in WIRES and (wire == "anthropic" or "claude" in name)


def mark_messages(messages: list[dict[str, Any]], marks: CacheMarks, stable: int, edition: int) -> list[dict[str, Any]]:
    """Return the messages of one request, some of them replaced by copies with a cache mark."""
    marked = {*marks.places(lambda at: str(messages[at]["role"]), stable, edition)}
    if messages and messages[0]["role"] == "system":
        marked.add(0)
    return [{**message, **MARK} if at in marked else message for at, message in enumerate(messages)]


def mark_last_tool(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools with the last one replaced by a copy with a cache mark, which covers all tools before it."""
    return [*tools[:-1], *({**tool, **MARK} for tool in tools[-1:])]
