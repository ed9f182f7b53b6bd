# ruff: noqa: E501  what vendors say is told in one line, in their letters
"""Refusals of many vendors with the kind that is wanted: texts from public issue trackers and references, envelopes
made here. Each: vendor, status, headers, body, kind, and seconds to wait where it says any."""

from __future__ import annotations

import json
from typing import Any


def _of(message: str, type: str | None = None, code: Any = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "code": code, **more}}


def _anthropic(type: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_1"}


def _google(code: int, status: str, message: str, *details: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"error": {"code": code, "message": message, "status": status, "details": list(details)}}]


_RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "31s"}
_MINUTE = {"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "quotaValue": "10"}]}
_DAY = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}]}
_LONG = "This model's maximum context length is 8191 tokens, however you requested 10346 tokens (10341 in your prompt)."
_EXCEEDED = "You exceeded your current quota, please check your plan and billing details."

BODIES: list[tuple[str, int, dict[str, str], Any, str, float | None]] = [
    # ---- too long
    ("azure", 400, {}, _of(_LONG, "invalid_request_error", "context_length_exceeded"), "context_overflow", None),
    (
        "openai, several limits",
        400,
        {},
        _of("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens."),
        "context_overflow",
        None,
    ),
    (
        "openai, 429 that no wait mends",
        429,
        {},
        _of(
            "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 38110. "
            "The input or output tokens must be reduced in order to run successfully.",
            "tokens",
            "rate_limit_exceeded",
        ),
        "context_overflow",
        None,
    ),
    (
        "openai, a message as such",
        400,
        {},
        _of(
            "Invalid 'messages[1].content': string too long. Expected a string with maximum length 10485760, but got a "
            "string with length 20000000 instead.",
            "invalid_request_error",
            "string_above_max_length",
        ),
        "context_overflow",
        None,
    ),
    (
        "openai, max_tokens and prompt",
        400,
        {},
        _of(
            "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 "
            "tokens and your request has 2104 input tokens (2000 > 4096 - 2104).",
            "BadRequestError",
            400,
        ),
        "context_overflow",
        None,
    ),
    (
        "anthropic, with max_tokens",
        400,
        {},
        _anthropic(
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or "
            "`max_tokens` and try again",
        ),
        "context_overflow",
        None,
    ),
    (
        "bedrock, claude",
        400,
        {"x-amzn-errortype": "ValidationException:http://internal.amazon.com/coral/"},
        {"message": "The model returned the following errors: prompt is too long: 200049 tokens > 200000 maximum"},
        "context_overflow",
        None,
    ),
    (
        "dashscope",
        400,
        {},
        _of(
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]",
            "invalid_request_error",
            "invalid_parameter_error",
        ),
        "context_overflow",
        None,
    ),
    (
        "moonshot",
        400,
        {},
        _of("Invalid request: Your request exceeded model token limit: 262144 (requested: 280000)", "invalid_request"),
        "context_overflow",
        None,
    ),
    ("zhipu", 400, {}, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}, "context_overflow", None),
    ("zhipu, chinese", 400, {}, {"error": {"code": "1261", "message": "Prompt 超长"}}, "context_overflow", None),
    (
        "ark",
        400,
        {},
        _of(
            "Total tokens of image and text exceed max message tokens. Request id: 02", "BadRequest", "InvalidParameter"
        ),
        "context_overflow",
        None,
    ),
    (
        "tgi",
        422,
        {},
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` "
            "tokens and 512 `max_new_tokens`",
            "error_type": "validation",
        },
        "context_overflow",
        None,
    ),
    (
        "tgi, inputs",
        422,
        {},
        {"error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 3000"},
        "context_overflow",
        None,
    ),
    (
        "sglang",
        400,
        {},
        {
            "object": "error",
            "message": "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested "
            "a total of 40000 tokens",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        "context_overflow",
        None,
    ),
    (
        "vllm, newer",
        400,
        {},
        _of(
            "The decoder prompt (length 50000) is longer than the maximum model length of 32768. Make sure that "
            "`max_model_len` is no smaller than the number of text tokens.",
            "BadRequestError",
            400,
        ),
        "context_overflow",
        None,
    ),
    (
        "cohere",
        400,
        {},
        {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000."},
        "context_overflow",
        None,
    ),
    (
        "github models",
        413,
        {},
        _of("Request body too large for gpt-4o model. Max size: 8000 tokens.", None, "tokens_limit_reached"),
        "context_overflow",
        None,
    ),
    (
        "cloudflare",
        400,
        {},
        {
            "success": False,
            "errors": [
                {
                    "message": "AiError: The estimated number of input and maximum output tokens (30000) exceeded this "
                    "model context window limit (24000).",
                    "code": 5021,
                }
            ],
        },
        "context_overflow",
        None,
    ),
    (
        "openrouter, wrapped",
        400,
        {},
        _of(
            "Provider returned error",
            None,
            400,
            metadata={
                "provider_name": "Anthropic",
                "raw": json.dumps(_anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000")),
            },
        ),
        "context_overflow",
        None,
    ),
    (
        "tabbyapi",
        400,
        {},
        {"detail": "Prompt length 9000 is greater than max_seq_len 8192"},
        "context_overflow",
        None,
    ),
    (
        "lm studio, older",
        400,
        {},
        {
            "error": "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with "
            "context length of only 4096 tokens, which is not enough."
        },
        "context_overflow",
        None,
    ),
    (
        "nginx",
        413,
        {"content-type": "text/html"},
        "<html><h1>413 Request Entity Too Large</h1></html>",
        "context_overflow",
        None,
    ),
    (
        "mistral, nested",
        400,
        {},
        {
            "object": "error",
            "message": {
                "detail": [{"type": "value_error", "msg": "Prompt contains 70000 tokens, too large for model"}]
            },
            "type": "invalid_request_error",
            "code": None,
        },
        "context_overflow",
        None,
    ),
    (
        "ollama, as 500",
        500,
        {},
        {"error": "the input length exceeds the context length"},
        "context_overflow",
        None,
    ),
    (
        "databricks",
        400,
        {},
        {"error_code": "BAD_REQUEST", "message": "Input is too long: 140000 tokens exceeds the maximum of 128000."},
        "context_overflow",
        None,
    ),
    (
        "vertex",
        400,
        {},
        _google(
            400,
            "INVALID_ARGUMENT",
            "Unable to submit request because the input token count is "
            "1200000 but model only supports up to 1048576. Reduce the input token count and try again.",
        ),
        "context_overflow",
        None,
    ),
    (
        "xai, newer",
        413,
        {},
        {"code": "invalid-argument", "error": "Request payload is too large."},
        "context_overflow",
        None,
    ),
    # ---- what is not too long
    (
        "openai, the output alone",
        400,
        {},
        _of(
            "max_tokens is too large: 90000. This model supports at most 16384 completion tokens, whereas you provided "
            "90000.",
            "invalid_request_error",
            "invalid_value",
        ),
        "bad_request",
        None,
    ),
    (
        "anthropic, the output alone",
        400,
        {},
        _anthropic(
            "invalid_request_error",
            "max_tokens: 128001 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4",
        ),
        "bad_request",
        None,
    ),
    (
        "bedrock, the output alone",
        400,
        {},
        {"message": "The maximum tokens you requested exceeds the model limit of 4096. Try again with a lower value."},
        "bad_request",
        None,
    ),
    (
        "anthropic, a picture",
        400,
        {},
        _anthropic(
            "invalid_request_error",
            "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
        ),
        "bad_request",
        None,
    ),
    (
        "openai, tool names",
        400,
        {},
        _of(
            "Invalid 'tools[0].function.name': string does not match pattern.", "invalid_request_error", "invalid_value"
        ),
        "bad_request",
        None,
    ),
    (
        "anthropic, tool results",
        400,
        {},
        _anthropic("invalid_request_error", "messages.2: `tool_use` ids were found without `tool_result` blocks"),
        "bad_request",
        None,
    ),
    (
        "openai, no tools",
        400,
        {},
        _of("registry.ollama.ai/library/x does not support tools", "api_error"),
        "bad_request",
        None,
    ),
    (
        "azure, a filter",
        400,
        {},
        _of(
            "The response was filtered due to the prompt triggering content management policy.", None, "content_filter"
        ),
        "bad_request",
        None,
    ),
    # ---- quota
    ("openai, quota", 429, {}, _of(_EXCEEDED, "insufficient_quota", "insufficient_quota"), "quota", None),
    (
        "openai, hard limit",
        400,
        {},
        _of("Billing hard limit has been reached", "invalid_request_error", "billing_hard_limit_reached"),
        "quota",
        None,
    ),
    (
        "moonshot, quota",
        429,
        {},
        _of("Your account is suspended due to insufficient balance, please recharge", "exceeded_current_quota_error"),
        "quota",
        None,
    ),
    (
        "zhipu, balance",
        429,
        {},
        {"error": {"code": "1113", "message": "您的账户已欠费，请充值后重试。"}},
        "quota",
        None,
    ),
    (
        "z.ai",
        429,
        {},
        {
            "type": "error",
            "error": {
                "type": "rate_limit_error",
                "code": "1113",
                "message": "[1113][Insufficient balance or no resource package. Please recharge.]",
            },
        },
        "quota",
        None,
    ),
    (
        "siliconflow",
        403,
        {},
        {"code": 30011, "message": "The selected model requires paid balance. Your paid balance is insufficient."},
        "quota",
        None,
    ),
    (
        "openrouter, credits",
        402,
        {},
        _of("This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens.", None, 402),
        "quota",
        None,
    ),
    (
        "anthropic, usage limit",
        400,
        {},
        _anthropic(
            "invalid_request_error",
            "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
        ),
        "quota",
        None,
    ),
    (
        "dashscope, arrears",
        400,
        {},
        {"code": "Arrearage", "message": "Access denied, please make sure your account is in good standing."},
        "quota",
        None,
    ),
    (
        "gemini, a day's requests",
        429,
        {},
        _google(429, "RESOURCE_EXHAUSTED", _EXCEEDED, _DAY, _RETRY),
        "quota",
        31.0,
    ),
    (
        "minimax, balance",
        200,
        {},
        {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        "quota",
        None,
    ),
    (
        "xai, credits",
        429,
        {},
        {
            "code": "Some resource has been exhausted",
            "error": "Your team has either used all available credits or reached its monthly spending limit.",
        },
        "quota",
        None,
    ),
    # ---- rates
    (
        "openai, rate",
        429,
        {},
        _of(
            "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 25000, "
            "Requested 9000. Please try again in 8.2s.",
            "tokens",
            "rate_limit_exceeded",
        ),
        "rate_limit",
        8.2,
    ),
    (
        "openai, milliseconds",
        429,
        {},
        _of("Rate limit reached. Please try again in 20ms.", "requests", "rate_limit_exceeded"),
        "rate_limit",
        0.02,
    ),
    (
        "azure, rate",
        429,
        {},
        _of("Requests have exceeded call rate limit. Please retry after 12 seconds."),
        "rate_limit",
        12,
    ),
    (
        "bedrock, throttled",
        429,
        {},
        {"message": "Too many tokens, please wait before trying again."},
        "rate_limit",
        None,
    ),
    (
        "bedrock, throttled as 400",
        400,
        {"x-amzn-errortype": "ThrottlingException"},
        {"message": "Too many requests, please wait before trying again."},
        "rate_limit",
        None,
    ),
    (
        "aws, by type",
        400,
        {},
        {"__type": "com.amazon.coral#ThrottlingException", "message": "Rate exceeded"},
        "rate_limit",
        None,
    ),
    (
        "gemini, a minute's requests",
        429,
        {},
        _google(429, "RESOURCE_EXHAUSTED", _EXCEEDED, _MINUTE, _RETRY),
        "rate_limit",
        31.0,
    ),
    (
        "openrouter, reset",
        429,
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "NOW+9000ms"},
        _of("Rate limit exceeded: free-models-per-min.", None, 429),
        "rate_limit",
        9.0,
    ),
    (
        "openai, reset of what is used up",
        429,
        {
            "x-ratelimit-remaining-requests": "9999",
            "x-ratelimit-reset-requests": "6h0m0s",
            "x-ratelimit-remaining-tokens": "0",
            "x-ratelimit-reset-tokens": "1m2.5s",
        },
        _of("slow down"),
        "rate_limit",
        62.5,
    ),
    ("plain", 429, {}, "Too Many Requests", "rate_limit", None),
    # ---- keys
    (
        "gemini, key",
        400,
        {},
        _google(400, "INVALID_ARGUMENT", "API Key not found. Please pass a valid API key."),
        "auth",
        None,
    ),
    (
        "gemini, expired",
        400,
        {},
        _google(400, "INVALID_ARGUMENT", "API key expired. Please renew the API key."),
        "auth",
        None,
    ),
    (
        "xai, key",
        400,
        {},
        {
            "code": "Client specified an invalid argument",
            "error": "Incorrect API key provided: xa***. You can obtain one",
        },
        "auth",
        None,
    ),
    (
        "aws, token",
        400,
        {},
        {"__type": "UnrecognizedClientException", "message": "The security token included in the request is invalid."},
        "auth",
        None,
    ),
    ("anthropic, key", 401, {}, _anthropic("authentication_error", "invalid x-api-key"), "auth", None),
    (
        "anthropic, disabled",
        400,
        {},
        _anthropic("invalid_request_error", "This organization has been disabled."),
        "auth",
        None,
    ),
    (
        "azure, key",
        401,
        {},
        {"statusCode": 401, "message": "Unauthorized. Access token is missing, invalid or expired."},
        "auth",
        None,
    ),
    ("cloudflare, html", 403, {}, "<html><title>Access denied</title></html>", "auth", None),
    # ---- models
    (
        "groq, gone",
        400,
        {},
        _of("The model `x` has been decommissioned and is no longer supported.", None, "model_decommissioned"),
        "not_found",
        None,
    ),
    (
        "gemini, model",
        404,
        {},
        _google(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1main"),
        "not_found",
        None,
    ),
    (
        "azure, deployment",
        404,
        {},
        _of("The API deployment for this resource does not exist.", None, "DeploymentNotFound"),
        "not_found",
        None,
    ),
    ("ollama, model", 404, {}, {"error": "model 'llama9' not found"}, "not_found", None),
    (
        "mistral, model",
        400,
        {},
        {"object": "error", "message": "Invalid model: mistral-huge", "type": "invalid_model", "code": "1500"},
        "not_found",
        None,
    ),
    (
        "zhipu, model",
        400,
        {},
        {"error": {"code": "1211", "message": "模型不存在，请检查模型代码。"}},
        "not_found",
        None,
    ),
    (
        "together, model",
        404,
        {},
        _of("Unable to access model x. Please visit the site to see the list.", None, "model_not_available"),
        "not_found",
        None,
    ),
    # ---- the provider's own trouble
    ("llama.cpp, loading", 503, {}, _of("Loading model", "unavailable_error", 503), "server", None),
    ("anthropic, own", 500, {}, _anthropic("api_error", "Internal server error"), "server", None),
    (
        "gemini, busy",
        503,
        {},
        _google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        "server",
        None,
    ),
    (
        "openai, own",
        500,
        {},
        _of("The server had an error while processing your request.", "server_error"),
        "server",
        None,
    ),
    (
        "gemini, late",
        504,
        {},
        _google(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
        "timeout",
        None,
    ),
    (
        "bedrock, late",
        408,
        {"x-amzn-errortype": "ModelTimeoutException"},
        {"message": "Model timed out"},
        "timeout",
        None,
    ),
    ("cloudflare, 524", 524, {}, "<!DOCTYPE html><title>524: A timeout occurred</title>", "timeout", None),
    ("gateway", 502, {}, "Bad Gateway", "server", None),
    ("unreadable", 500, {}, "\udcff\udcfe{", "server", None),
    ("empty", 400, {}, "", "bad_request", None),
]
"""`NOW+9000ms` in a header is that time as an epoch in milliseconds. A body that is a text is sent as it is."""

TEXTS: list[tuple[int, Any, str]] = [
    (400, "Input length (265330) exceeds model's maximum context length (262144).", "context_overflow"),
    (400, "Prompt has 5000 tokens, but the configured context size is 4096 tokens", "context_overflow"),
    (400, "Input length 140000 exceeds maximum allowed input length of 131072 tokens.", "context_overflow"),
    (400, "The input exceeds the maximum allowed input length", "context_overflow"),
    (
        400,
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 5000>= n_ctx: 4096)",
        "context_overflow",
    ),
    (400, "n_keep: 5000 >= n_ctx: 4096", "context_overflow"),
    (400, "Context size has been exceeded.", "context_overflow"),
    (400, "输入长度超过模型上限", "context_overflow"),
    (400, "超过最大长度", "context_overflow"),
    (400, "长度超限", "context_overflow"),
    (400, "上下文长度超出", "context_overflow"),
    (403, "额度不足", "quota"),
    (429, "已达到套餐用量上限", "quota"),
    (403, "账户余额不足，请充值", "quota"),
    (400, "请求频率过高，已限流", "rate_limit"),
    (429, "usage limit reached for the month", "quota"),
    (503, "server busy, at capacity", "server"),
    (500, "upstream billing service timeout", "server"),
    (400, "max_tokens exceeds the limit of 8192", "bad_request"),
    (400, "too many tokens in the request", "context_overflow"),
    (400, "token limit exceeded for this model", "context_overflow"),
    (
        429,
        {
            "error": {
                "type": "usage_limit_reached",
                "message": "The usage limit has been reached",
                "plan_type": "plus",
                "resets_in_seconds": 3600,
            }
        },
        "quota",
    ),
    (
        400,
        {
            "error": {
                "message": "litellm.BadRequestError: ContextWindowExceededError: This model's maximum context",
                "type": None,
                "code": "400",
            }
        },
        "context_overflow",
    ),
    (413, {"error": "Payload Too Large"}, "context_overflow"),
    (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "messages.1.content: array too long. Expected at most 100000 items",
            },
        },
        "bad_request",
    ),
    (
        400,
        {
            "error": {
                "message": "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 200 instead.",
                "type": "invalid_request_error",
                "param": "tools",
                "code": "array_above_max_length",
            }
        },
        "bad_request",
    ),
    (
        400,
        {
            "error": {
                "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                "type": "invalid_request_error",
                "param": "max_tokens",
                "code": "unsupported_parameter",
            }
        },
        "bad_request",
    ),
    (
        400,
        {
            "error": {
                "message": "Missing required parameter: 'messages[1].content'.",
                "code": "missing_required_parameter",
            }
        },
        "bad_request",
    ),
    (400, {"error": {"message": "The model `o1` does not support image input", "code": 400}}, "bad_request"),
    (400, {"error": {"message": "Function calling is not enabled for models/gemma-3"}}, "bad_request"),
    (
        400,
        [{"error": {"code": 400, "message": "Request contains an invalid argument.", "status": "INVALID_ARGUMENT"}}],
        "bad_request",
    ),
    (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "User location is not supported for the API use.",
                    "status": "FAILED_PRECONDITION",
                }
            }
        ],
        "bad_request|auth",
    ),
    (
        403,
        [
            {
                "error": {
                    "code": 403,
                    "message": "Your API key was reported as leaked. Please use another API key.",
                    "status": "PERMISSION_DENIED",
                }
            }
        ],
        "auth",
    ),
    (
        429,
        [
            {
                "error": {
                    "code": 429,
                    "message": "Resource has been exhausted (e.g. check quota).",
                    "status": "RESOURCE_EXHAUSTED",
                }
            }
        ],
        "rate_limit",
    ),
    (400, {"error": {"message": "The request is too long: 600000 tokens, context limit 512000"}}, "context_overflow"),
    (
        422,
        {
            "detail": [
                {
                    "type": "string_type",
                    "loc": ["body", "messages", 0, "content"],
                    "msg": "Input should be a valid string",
                }
            ]
        },
        "bad_request",
    ),
    (400, {"message": "Expected toolResult blocks at messages.2.content for the following Ids"}, "bad_request"),
    (403, {"Message": "User: arn:aws:iam::1:user/x is not authorized to perform: bedrock:InvokeModel"}, "auth"),
    (403, {"message": "You don't have access to the model with the specified model ID."}, "auth|not_found"),
    (404, {"message": "Could not resolve the foundation model from the provided model identifier."}, "not_found"),
    (400, {"error": {"message": "Model gpt-99 not found", "code": 400}}, "not_found"),
    (503, {"error": {"message": "No available server for this model", "code": 503}}, "server"),
    (
        502,
        {"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": "error code: 502"}}},
        "server",
    ),
    (400, {"error": {"message": "Prompt tokens limit exceeded: 20000 > 16000", "code": 400}}, "context_overflow"),
    (
        402,
        {
            "error": {
                "message": "Prompt tokens limit exceeded: 20000 > 16000. To increase, visit settings and upgrade to a paid account",
                "code": 402,
            }
        },
        "quota",
    ),
    (
        429,
        {
            "error": {
                "message": "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day",
                "code": 429,
            }
        },
        "quota",
    ),
    (
        429,
        {
            "type": "error",
            "error": {
                "type": "rate_limit_error",
                "message": "This request would exceed your organization's rate limit of 30,000 input tokens per minute. For details, refer to the docs. You can see the response headers for current usage. Please reduce the prompt length or the maximum tokens requested, or try again later.",
            },
        },
        "rate_limit",
    ),
    (
        429,
        {
            "type": "error",
            "error": {
                "type": "rate_limit_error",
                "message": "Number of request tokens has exceeded your per-minute rate limit",
            },
        },
        "rate_limit",
    ),
    (
        429,
        {
            "error": {
                "message": "The engine is currently overloaded, please try again later",
                "type": "engine_overloaded_error",
            }
        },
        "rate_limit|server",
    ),
    (
        429,
        {
            "error": {
                "message": "Your account reached max request: 3, please try again after 1 seconds",
                "type": "rate_limit_reached_error",
            }
        },
        "rate_limit",
    ),
    (429, {"error": {"code": "1302", "message": "您当前使用该API的并发数过高，请降低并发"}}, "rate_limit"),
    (400, {"error": {"code": "1214", "message": "messages 参数非法。请检查文档。"}}, "bad_request"),
    (401, {"error": {"code": "1000", "message": "身份验证失败。"}}, "auth"),
    (529, "", "server"),
    (500, "", "server"),
    (403, "", "auth"),
    (401, "", "auth"),
    (404, "", "not_found"),
    (429, "", "rate_limit"),
    (422, "", "bad_request"),
    (400, "<html><h1>400 Bad Request</h1></html>", "bad_request"),
]
"""The same, shorter: status, body (a text is sent as it is, and as the message of an error), kinds that are right."""
