"""Finish reasons: the words in which each vendor says why a response ended, as a table with its sources.

The table is in this package because providers, importers and the documentation all read it, and all of them may import
`decision`. `parse_finish_reason` maps a word to what the loop does. A word that is not in the table is not a success
by itself; see `rules.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from msgspec import Struct

from .errors import WrongUse
from .messages import FinishReason

ACTIONS: dict[FinishReason, str] = {
    "stop": "success: the setting `text` decides",
    "tool_calls": "runs the calls and goes on",
    "pause": "asks the model to continue where it stopped",
    "length": "tells the model that it was cut off, and goes on; a few times, then `no_answer`",
    "context_full": "as `length`, after compacting the context",
    "content_filter": "tells the model that it was blocked, and goes on; then `refusal`",
    "retry": "asks the model once more; then `provider_error`",
    "error": "ends the run as `provider_error`",
    "other": "unknown: runs the calls; without calls, asks the model once more; then `provider_error`",
}
"""What the loop does after each finish reason. Complete calls are run after every reason but `error`."""


class FinishWord(Struct, frozen=True):
    """One finish word that a vendor documents."""

    wire: str
    """The wire format, as the vendor names it."""
    vendor: str
    word: str
    does: FinishReason
    """The finish reason that the loop acts on; see `ACTIONS`."""
    meaning: str
    """What the vendor means by it, paraphrased."""
    source: str
    """URL of the vendor's documentation or code."""
    fails: bool = False
    """Whether the server failed, and may answer the same request when asked again."""


def _words(wire: str, vendor: str, source: str, **words: tuple[FinishReason, str]) -> list[FinishWord]:
    return [
        FinishWord(wire, vendor, word, *says, source, fails=says in _SERVER_FAILURES) for word, says in words.items()
    ]


_END: tuple[FinishReason, str] = ("stop", "the model finished")
_STOPPED: tuple[FinishReason, str] = ("stop", "the model finished or reached a stop sequence")
_AT_WORDS: tuple[FinishReason, str] = ("stop", "the model reached a stop sequence")
_LENGTH: tuple[FinishReason, str] = ("length", "the response reached its token limit")
_FULL: tuple[FinishReason, str] = ("context_full", "the model's context window is full")
_CALLS: tuple[FinishReason, str] = ("tool_calls", "the model calls tools")
_FILTER: tuple[FinishReason, str] = ("content_filter", "a content filter removed something or blocked the response")
_REFUSED: tuple[FinishReason, str] = ("content_filter", "the model or a safety system declined to answer")
_ERROR: tuple[FinishReason, str] = ("error", "the response failed")
_ABORT: tuple[FinishReason, str] = ("retry", "the server aborted the response")
_CANCELLED: tuple[FinishReason, str] = ("retry", "the response was cancelled on the server")
_INCOMPLETE: tuple[FinishReason, str] = ("retry", "the stream ended before the response was complete")
_NOT_BEGUN: tuple[FinishReason, str] = ("retry", "the stream ended before the response began")
_TOO_LONG: tuple[FinishReason, str] = ("retry", "the response took too long")
_NO_CAPACITY: tuple[FinishReason, str] = ("retry", "the vendor ran out of capacity")
_NETWORK: tuple[FinishReason, str] = ("retry", "inference failed at the vendor")
_SERVER_FAILURES = frozenset({
    _ERROR, _ABORT, _CANCELLED, _INCOMPLETE, _NOT_BEGUN, _TOO_LONG, _NO_CAPACITY, _NETWORK,
})  # fmt: skip
_IMAGE: tuple[FinishReason, str] = ("content_filter", "an image was blocked")
_NO_REASON: tuple[FinishReason, str] = ("retry", "no reason given")

_CHAT = "chat completions"
_GITHUB = "https://github.com"
_OPENAI = f"{_GITHUB}/openai/openai-python/blob/main/src/openai/types"

FINISH_WORDS: tuple[FinishWord, ...] = (
    *_words(
        _CHAT, "OpenAI", f"{_OPENAI}/chat/chat_completion_chunk.py",
        stop=_STOPPED, length=_LENGTH, tool_calls=_CALLS, function_call=_CALLS, content_filter=_FILTER,
    ),
    *_words(
        "responses", "OpenAI", f"{_OPENAI}/responses/response_status.py",
        completed=_END, failed=_ERROR,
        incomplete=("length", "the response was cut off; `incomplete_details.reason` says why"),
        cancelled=_CANCELLED,
        in_progress=_INCOMPLETE,
        queued=_NOT_BEGUN,
    ),
    *_words(
        "responses", "OpenAI (`incomplete_details.reason`)", f"{_OPENAI}/responses/response.py",
        max_output_tokens=_LENGTH, content_filter=_FILTER,
        max_messages=("length", "the response reached its limit on messages"),
    ),
    *_words(
        _CHAT, "Azure OpenAI", "https://learn.microsoft.com/en-us/azure/ai-foundry/openai/concepts/content-filter",
        stop=_STOPPED, length=_LENGTH, tool_calls=_CALLS, function_call=_CALLS, content_filter=_FILTER,
    ),
    *_words(
        "messages", "Anthropic", "https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons",
        end_turn=_END, max_tokens=_LENGTH, stop_sequence=_AT_WORDS, tool_use=_CALLS, refusal=_REFUSED,
        pause_turn=("pause", "the vendor paused its own tool loop"),
        model_context_window_exceeded=_FULL,
    ),
    *_words(
        "messages", "Anthropic", "https://platform.claude.com/docs/en/build-with-claude/compaction",
        compaction=("pause", "the vendor compacted the context and waits for the next request"),
    ),
    *_words(
        "generateContent", "Gemini", "https://ai.google.dev/api/generate-content#FinishReason",
        STOP=_STOPPED, MAX_TOKENS=_LENGTH, SAFETY=_FILTER,
        RECITATION=("content_filter", "the response was flagged as recitation"),
        LANGUAGE=("content_filter", "the response uses an unsupported language"),
        BLOCKLIST=("content_filter", "the response contains a blocked term"),
        PROHIBITED_CONTENT=_FILTER,
        SPII=("content_filter", "the response may contain personal data"),
        IMAGE_SAFETY=_IMAGE, IMAGE_PROHIBITED_CONTENT=_IMAGE, IMAGE_RECITATION=_IMAGE, IMAGE_OTHER=_IMAGE,
        NO_IMAGE=("retry", "no image was generated"),
        MALFORMED_FUNCTION_CALL=("retry", "the model wrote a malformed call"),
        UNEXPECTED_TOOL_CALL=("retry", "the model called a tool, but none was offered"),
        TOO_MANY_TOOL_CALLS=("retry", "the model made too many calls in a row"),
        MISSING_THOUGHT_SIGNATURE=("error", "a call in the request lacks its thought signature"),
        MALFORMED_RESPONSE=("retry", "the model's response is malformed"),
        OTHER=_NO_REASON, FINISH_REASON_UNSPECIFIED=_NO_REASON,
    ),
    *_words(
        "generateContent", "Gemini (its SDK)", f"{_GITHUB}/googleapis/python-genai/blob/main/google/genai/types.py",
        ESCALATION=_FILTER,
        PUP_LIMITED_DISABLED=("error", "the account is restricted after a policy violation"),
        CONTINUATION=("length", "one request reached its limit; a token would continue it"),
    ),
    *_words(
        "generateContent", "Gemini on Vertex AI",
        "https://cloud.google.com/vertex-ai/docs/reference/rest/v1/GenerateContentResponse#FinishReason",
        MODEL_ARMOR=("content_filter", "Model Armor blocked the response"),
    ),
    *_words(
        "interactions", "Gemini", "https://ai.google.dev/api/interactions-api",
        completed=_END, failed=_ERROR, incomplete=("length", "the response was cut off"),
        requires_action=_CALLS,
        cancelled=_CANCELLED,
        in_progress=_INCOMPLETE,
    ),
    *_words(
        "Converse", "Amazon Bedrock",
        "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_MessageStopEvent.html",
        end_turn=_END, tool_use=_CALLS, max_tokens=_LENGTH, stop_sequence=_AT_WORDS,
        guardrail_intervened=("content_filter", "a guardrail intervened"), content_filtered=_FILTER,
        malformed_model_output=("retry", "the model's response is malformed"),
        malformed_tool_use=("retry", "the model wrote a malformed call"),
        model_context_window_exceeded=_FULL,
    ),
    *_words(
        "InvokeModel", "Amazon Bedrock: Titan",
        "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-text.html",
        FINISHED=_END, LENGTH=_LENGTH, STOP_CRITERIA_MET=_AT_WORDS, CONTENT_FILTERED=_FILTER,
        RAG_QUERY_WHEN_RAG_DISABLED=("error", "the request uses retrieval, which is disabled"),
    ),
    *_words(
        "InvokeModel", "Amazon Bedrock: Claude",
        "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html",
        end_turn=_END, max_tokens=_LENGTH, stop_sequence=_AT_WORDS, tool_use=_CALLS, refusal=_REFUSED,
    ),
    *_words(
        "InvokeModel", "Amazon Bedrock: Llama, DeepSeek, Mistral",
        "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html",
        stop=_STOPPED, length=_LENGTH, tool_calls=_CALLS,
    ),
    *_words(
        "InvokeModel", "Amazon Bedrock: Jurassic",
        "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-jurassic2.html",
        endoftext=_END, length=_LENGTH, stop=_AT_WORDS,
    ),
    *_words(
        "InvokeModel", "Amazon Bedrock: Cohere",
        "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-cohere-command-r-plus.html",
        COMPLETE=_END, MAX_TOKENS=_LENGTH, ERROR=_ERROR, ERROR_TOXIC=_FILTER,
    ),
    *_words(
        "chat", "Cohere", f"{_GITHUB}/cohere-ai/cohere-python/blob/main/src/cohere/types/chat_finish_reason.py",
        COMPLETE=_END, STOP_SEQUENCE=_AT_WORDS, MAX_TOKENS=_LENGTH, TOOL_CALL=_CALLS, ERROR=_ERROR,
        TIMEOUT=_TOO_LONG,
    ),
    *_words(
        "chat, first version", "Cohere",
        f"{_GITHUB}/cohere-ai/cohere-python/blob/main/src/cohere/types/finish_reason.py",
        COMPLETE=_END, STOP_SEQUENCE=_AT_WORDS, MAX_TOKENS=_LENGTH, ERROR=_ERROR, ERROR_TOXIC=_FILTER,
        ERROR_LIMIT=_FULL, USER_CANCEL=("retry", "the client cancelled the response"),
    ),
    *_words(
        _CHAT, "Mistral", "https://docs.mistral.ai/api/",
        stop=_STOPPED, length=_LENGTH, tool_calls=_CALLS, model_length=_FULL, error=_ERROR,
    ),
    *_words(
        _CHAT, "DeepSeek", "https://api-docs.deepseek.com/api/create-chat-completion",
        stop=_STOPPED, length=_LENGTH, content_filter=_FILTER, tool_calls=_CALLS,
        insufficient_system_resource=_NO_CAPACITY,
    ),
    *_words(
        _CHAT, "Z.ai", "https://docs.z.ai/api-reference/llm/chat-completion",
        stop=_STOPPED, tool_calls=_CALLS, length=_LENGTH, sensitive=_FILTER,
        network_error=_NETWORK,
        model_context_window_exceeded=_FULL,
    ),
    *_words(
        _CHAT, "OpenCode Zen", f"{_GITHUB}/NousResearch/hermes-agent/pull/92161",
        **{"network-error": _NETWORK},
    ),
    *_words(
        _CHAT, "Groq", f"{_GITHUB}/groq/groq-python/blob/main/src/groq/types/chat/chat_completion_chunk.py",
        stop=_STOPPED, length=_LENGTH, tool_calls=_CALLS, function_call=_CALLS, content_filter=_FILTER,
    ),
    *_words(
        _CHAT, "xAI", "https://docs.x.ai/docs/api-reference",
        stop=_STOPPED, length=_LENGTH, end_turn=_END, tool_calls=_CALLS,
    ),
    *_words(
        "gRPC", "xAI", f"{_GITHUB}/xai-org/xai-proto/blob/main/proto/xai/api/v1/sample.proto",
        REASON_STOP=_STOPPED, REASON_MAX_LEN=_LENGTH, REASON_MAX_CONTEXT=_FULL, REASON_TOOL_CALLS=_CALLS,
        REASON_TIME_LIMIT=("length", "the response reached its time limit"), REASON_INVALID=_NO_REASON,
    ),
    *_words(
        _CHAT, "OpenRouter", "https://openrouter.ai/docs/api-reference/overview",
        stop=_STOPPED, length=_LENGTH, tool_calls=_CALLS, content_filter=_FILTER, error=_ERROR,
    ),
    *_words(
        _CHAT, "vLLM", f"{_GITHUB}/vllm-project/vllm/blob/main/vllm/v1/engine/__init__.py",
        stop=_STOPPED, length=_LENGTH, tool_calls=_CALLS, abort=_ABORT, error=_ERROR,
        repetition=("retry", "the server detected endless repetition"),
    ),
    *_words(
        _CHAT, "SGLang", f"{_GITHUB}/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/openai/protocol.py",
        stop=_STOPPED, length=_LENGTH, tool_calls=_CALLS, function_call=_CALLS, content_filter=_FILTER, abort=_ABORT,
    ),
    *_words(
        _CHAT, "llama.cpp", f"{_GITHUB}/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        stop=_STOPPED, length=_LENGTH, tool_calls=_CALLS,
    ),
    *_words(
        "completion", "llama.cpp (`stop_type`)",
        f"{_GITHUB}/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        eos=_END, limit=_LENGTH, word=_AT_WORDS, none=_NO_REASON,
    ),
    *_words(
        "chat completions, generate", "TGI",
        f"{_GITHUB}/huggingface/text-generation-inference/blob/main/router/src/lib.rs",
        stop=_STOPPED, length=_LENGTH, eos_token=_END, stop_sequence=_AT_WORDS, tool_calls=_CALLS,
    ),
    *_words(
        "chat", "Ollama (`done_reason`)", f"{_GITHUB}/ollama/ollama/blob/main/docs/api.md",
        stop=_STOPPED, length=_LENGTH,
        load=("retry", "the model was loaded; there was no prompt"),
        unload=("retry", "the model was unloaded; there was no prompt"),
    ),
    *_words(
        "SDK", "LM Studio (`stopReason`)",
        f"{_GITHUB}/lmstudio-ai/lmstudio-js/blob/main/packages/lms-shared-types/src/llm/LLMPredictionStats.ts",
        eosFound=_END, stopStringFound=_AT_WORDS, toolCalls=_CALLS, maxPredictedTokensReached=_LENGTH,
        contextLengthReached=_FULL, userStopped=("retry", "a user stopped the response on the server"),
        modelUnloaded=_ABORT, failed=_ERROR,
    ),
    *_words(
        _CHAT, "Together", "https://docs.together.ai/reference/chat-completions-1",
        stop=_AT_WORDS, eos=_END, length=_LENGTH, tool_calls=_CALLS, function_call=_CALLS,
    ),
    *_words(
        _CHAT, "IBM watsonx", "https://ibm.github.io/watsonx-ai-node-sdk/",
        stop=_STOPPED, length=_LENGTH, tool_calls=_CALLS, time_limit=("length", "the response reached its time limit"),
        cancelled=_CANCELLED, error=_ERROR,
    ),
    *_words(
        "generation", "IBM watsonx", "https://ibm.github.io/watsonx-ai-node-sdk/",
        eos_token=_END, stop_sequence=_AT_WORDS, max_tokens=_LENGTH, token_limit=_LENGTH,
        time_limit=("length", "the response reached its time limit"),
        cancelled=_CANCELLED, error=_ERROR,
        not_finished=_INCOMPLETE,
    ),
)  # fmt: skip
"""Every finish word that these vendors document. A word means the same for all of them, whatever its case."""

_FAILURES = frozenset(word.word.casefold() for word in FINISH_WORDS if word.fails)
_DOES: dict[str, FinishReason] = {}
_MEANING: dict[str, str] = {}
for _word in FINISH_WORDS:
    _DOES.setdefault(_word.word.casefold(), _word.does)
    _MEANING.setdefault(_word.word.casefold(), _word.meaning)

NO_WORDS: Mapping[str, FinishReason] = {}


def parse_finish_reason(raw: str, taught: Mapping[str, FinishReason] = NO_WORDS) -> FinishReason:
    """The finish reason for a vendor's word: from `taught` (given by the user), else from the table, else `other`."""
    return taught.get(raw) or _DOES.get(raw) or _DOES.get(raw.casefold(), "other")


def is_server_failure(reason: FinishReason, raw: str) -> bool:
    """Whether a response that ended with the word `raw` failed at the server, which may answer when asked again.

    reason: what the word was taken for. A word that the user gave the meaning of an end is no failure.
    """
    return reason in ("retry", "error") and raw.casefold() in _FAILURES


def describe_finish_word(raw: str) -> str:
    """What a vendor means by a word; empty if the table does not have it."""
    return _MEANING.get(raw.casefold(), "")


TEACHABLE_REASONS: tuple[FinishReason, ...] = tuple(reason for reason in get_args(FinishReason) if reason != "other")
"""Finish reasons that the user can assign to a word."""


def check_finish_words(words: Mapping[str, FinishReason] | None) -> dict[str, FinishReason]:
    """Check an argument `finish_words` and return it as a dict. Raises WrongUse for an invalid word or meaning."""
    if words is None:
        return {}
    if not isinstance(words, Mapping):
        raise WrongUse(f'finish_words is {words!r}: give words with what they mean, as {{"done": "stop"}}')
    for word, means in words.items():
        if not isinstance(word, str) or not word:
            raise WrongUse(f'finish_words has the word {word!r}: use the text that the vendor sends, as "done"')
        if means not in TEACHABLE_REASONS:
            raise WrongUse(f"finish_words[{word!r}] is {means!r}: use one of {', '.join(TEACHABLE_REASONS)}")
    return dict(words)
