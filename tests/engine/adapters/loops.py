"""One agent in each framework, with or without the adapter: the same prompt, tools and model. For the benchmark."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from . import claude_code

SCHEMA = {"type": "object", "properties": {}, "additionalProperties": True}


class Play(NamedTuple):
    """What an agent is made of, and how long it may go on."""

    url: str
    model: str
    tools: Mapping[str, Callable[[str, dict[str, Any]], tuple[str, bool]]]
    """By name: from the call's id and arguments to the result, and whether the call failed."""
    prompt: str
    most: int
    """Requests after which the framework gives up."""
    stream: bool = False
    """Whether the agent is run as a stream."""


async def langchain(play: Play, endstop: Any) -> str:
    """`create_agent`."""
    from httpx import AsyncClient
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import StructuredTool
    from langchain_openai import ChatOpenAI

    class Tools(AgentMiddleware):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            call = request.tool_call
            content, failed = play.tools[call["name"]](call["id"], call["args"])
            status = "error" if failed else "success"
            return ToolMessage(content, tool_call_id=call["id"], name=call["name"], status=status)

    def never(**_: Any) -> str:
        raise AssertionError

    tools = [StructuredTool(name=name, description=name, args_schema=SCHEMA, func=never) for name in play.tools]
    middleware = [Tools(), *([endstop] if endstop else [])]
    limit = 4 * play.most + 4 if endstop else 2 * play.most
    given: Any = {"messages": [("user", play.prompt)]}
    config: Any = {"recursion_limit": limit}
    async with AsyncClient(timeout=60) as http:
        chat = ChatOpenAI(model=play.model, base_url=play.url, api_key="x", max_retries=0, http_async_client=http)
        agent = create_agent(chat, tools, middleware=middleware)
        if play.stream:
            modes = [pair async for pair in agent.astream(given, config, stream_mode=["messages", "values"])]
            state = next(value for mode, value in reversed(modes) if mode == "values")
        else:
            state = await agent.ainvoke(given, config)
    return str(state["messages"][-1].text)


async def openai_agents(play: Play, endstop: Any) -> str:
    """`Runner.run`."""
    from agents import Agent, FunctionTool, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    def tool(name: str) -> Any:
        async def invoke(context: Any, arguments: str) -> str:
            return play.tools[name](context.tool_call_id, {})[0]

        return FunctionTool(
            name=name, description=name, params_json_schema=SCHEMA, on_invoke_tool=invoke, strict_json_schema=False
        )

    async with AsyncOpenAI(base_url=play.url, api_key="x", max_retries=0, timeout=60) as client:
        model: Any = OpenAIChatCompletionsModel(play.model, client)
        more = {"hooks": endstop} if endstop else {}
        agent = Agent(name="mine", model=endstop.model(model) if endstop else model, tools=[*map(tool, play.tools)])
        if not play.stream:
            return str((await Runner.run(agent, play.prompt, max_turns=play.most, **more)).final_output)
        streamed = Runner.run_streamed(agent, play.prompt, max_turns=play.most, **more)
        async for _ in streamed.stream_events():
            pass
    return str(streamed.final_output)


async def pydantic_ai(play: Play, endstop: Any) -> str:
    """`Agent.run`."""
    from openai import AsyncOpenAI
    from pydantic_ai import Agent, RunContext, Tool, UsageLimits
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    def tool(name: str) -> Any:
        def invoke(ctx: RunContext[None], **_: Any) -> str:
            return play.tools[name](ctx.tool_call_id or "", {})[0]

        return Tool.from_schema(invoke, name=name, description=name, json_schema=SCHEMA, takes_ctx=True)

    async with AsyncOpenAI(base_url=play.url, api_key="x", max_retries=0, timeout=60) as client:
        model = OpenAIChatModel(play.model, provider=OpenAIProvider(openai_client=client))
        agent = Agent(model, tools=[*map(tool, play.tools)], capabilities=[endstop] if endstop else [])
        limits = UsageLimits(request_limit=play.most)
        if not play.stream:
            return str((await agent.run(play.prompt, usage_limits=limits)).output)
        async with agent.run_stream_events(play.prompt, usage_limits=limits) as streamed:
            events = [event async for event in streamed]
    return str(events[-1].result.output)


async def claude_agent_sdk(play: Play, endstop: Any) -> str:
    """`query`. A tool is not told the id of its call, which a hook hears just before."""
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        HookMatcher,
        ResultMessage,
        SdkMcpTool,
        SystemMessage,
        create_sdk_mcp_server,
        query,
    )

    called: dict[str, str] = {}

    async def hear(event: Any, id: str | None, context: Any) -> Any:
        called[event["tool_name"].split("__", 2)[-1]] = event["tool_use_id"]
        return {}

    def tool(name: str) -> Any:
        async def invoke(arguments: Any) -> Any:
            content, failed = play.tools[name](called[name], arguments)
            return {"content": [{"type": "text", "text": content}], "is_error": failed}

        return SdkMcpTool(name=name, description=name, input_schema=SCHEMA, handler=invoke)

    hooks = {"PreToolUse": [HookMatcher(hooks=[hear])]}
    with TemporaryDirectory() as home:
        options = ClaudeAgentOptions(
            model=play.model,
            tools=[],
            mcp_servers={"mine": create_sdk_mcp_server("mine", tools=[*map(tool, play.tools)])},
            allowed_tools=[f"mcp__mine__{name}" for name in play.tools],
            max_turns=play.most,
            max_buffer_size=2**26,
            setting_sources=[],
            cwd=home,
            env=claude_code.environment(play.url, Path(home)),
            hooks=endstop.hooks(hooks) if endstop else hooks,
        )
        said = ""
        async for message in query(prompt=play.prompt, options=options):
            if isinstance(message, SystemMessage) and message.subtype == "informational":
                said = message.data["content"].partition(" says: ")[2]
            if isinstance(message, ResultMessage):
                said = said or str(message.result)
    return said


async def strands(play: Play, endstop: Any) -> str:
    """`Agent.invoke_async`."""
    from strands import Agent
    from strands.models.openai import OpenAIModel
    from strands.tools import PythonAgentTool

    def tool(name: str) -> Any:
        def invoke(use: Any, **_: Any) -> Any:
            content, failed = play.tools[name](use["toolUseId"], use["input"])
            status = "error" if failed else "success"
            return {"toolUseId": use["toolUseId"], "status": status, "content": [{"text": content}]}

        spec: Any = {"name": name, "description": name, "inputSchema": {"json": SCHEMA}}
        return PythonAgentTool(name, spec, invoke)

    client = {"base_url": play.url, "api_key": "x", "max_retries": 0, "timeout": 60}
    model = OpenAIModel(client_args=client, model_id=play.model)
    plugins = [endstop] if endstop else []
    agent = Agent(model, tools=[*map(tool, play.tools)], plugins=plugins, callback_handler=None)
    result = await agent.invoke_async(play.prompt, limits={"turns": play.most})
    return str(result).strip() if result.stop_reason == "end_turn" else f"went on ({result.stop_reason})"


async def openai(play: Play, endstop: Any) -> str:
    """A loop by hand."""
    import json

    from openai import AsyncOpenAI

    messages: list[Any] = [{"role": "user", "content": play.prompt}]
    offered: Any = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in play.tools]
    async with AsyncOpenAI(base_url=play.url, api_key="x", max_retries=0, timeout=60) as client:
        mine = endstop.client(client) if endstop else client
        try:
            for _ in range(play.most):
                reply = await mine.chat.completions.create(
                    model=play.model, messages=messages, tools=offered, stream=play.stream
                )
                if play.stream:
                    message = joined([chunk async for chunk in reply])
                else:
                    message = reply.choices[0].message.model_dump(exclude_none=True)
                messages.append(message)
                if not message.get("tool_calls"):
                    return str(message["content"])
                for call in message["tool_calls"]:
                    arguments = json.loads(call["function"]["arguments"] or "{}")
                    content, _ = play.tools[call["function"]["name"]](call["id"], arguments)
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
            return "went on (the loop's own limit)"
        finally:
            if endstop:
                mine.end()


def joined(chunks: list[Any]) -> dict[str, Any]:
    """The message that chunks of chat completions make, as loops put it together."""
    text, calls = "", {}
    for chunk in chunks:
        delta = chunk.choices[0].delta if chunk.choices else None
        text += (delta and delta.content) or ""
        for piece in (delta and delta.tool_calls) or ():
            call = calls.setdefault(
                piece.index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            )
            call["id"] += piece.id or ""
            call["function"]["name"] += piece.function.name or ""
            call["function"]["arguments"] += piece.function.arguments or ""
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls.values())} if calls else {})}


async def google_adk(play: Play, endstop: Any) -> str:
    """`Runner.run_async`, with a model through LiteLLM: the proxy does not speak Gemini's wire."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it fetches its list of prices
    from google.adk.agents import Agent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.apps import App
    from google.adk.models.lite_llm import LiteLlm
    from google.adk.runners import InMemoryRunner
    from google.adk.tools import BaseTool
    from google.genai import types

    class Tool(BaseTool):
        def _get_declaration(self) -> Any:
            return types.FunctionDeclaration(name=self.name, description=self.name, parameters_json_schema=SCHEMA)

        async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
            content, failed = play.tools[self.name](tool_context.function_call_id, args)
            return {"error" if failed else "result": content}

    model: Any = LiteLlm(model=f"openai/{play.model}", api_base=play.url, api_key="x", timeout=60)
    tools: list[Any] = [Tool(name=name, description=name) for name in play.tools]
    agent = Agent(name="mine", model=endstop.model(model) if endstop else model, tools=tools)
    mode = StreamingMode.SSE if play.stream else StreamingMode.NONE
    async with InMemoryRunner(app=App(name="app", root_agent=agent, plugins=[endstop] if endstop else [])) as runner:
        config = RunConfig(max_llm_calls=play.most, streaming_mode=mode)
        events = await runner.run_debug(play.prompt, run_config=config, quiet=True)
    last = [event for event in events if event.content and not event.partial][-1]
    return "".join(part.text or "" for part in last.content.parts)


LOOPS: dict[str, Callable[[Play, Any], Any]] = {
    "google_adk": google_adk,
    "langchain": langchain,
    "openai_agents": openai_agents,
    "pydantic_ai": pydantic_ai,
    "openai": openai,
    "strands": strands,
    "claude_agent_sdk": claude_agent_sdk,
}
PACKAGES = {
    "google_adk": "google-adk",
    "langchain": "langchain",
    "openai_agents": "openai-agents",
    "pydantic_ai": "pydantic-ai-slim",
    "openai": "openai",
    "strands": "strands-agents",
    "claude_agent_sdk": "claude-agent-sdk",
}


def version(framework: str) -> str:
    """The framework with its version."""
    return f"{PACKAGES[framework]} {metadata.version(PACKAGES[framework])}"


def run(framework: str, play: Play, endstop: Any) -> str:
    """How an agent ends: its answer, or the error that it raises."""

    async def played() -> str:
        try:
            return str(await LOOPS[framework](play, endstop))
        except Exception as error:
            return type(error).__name__

    return asyncio.run(played())
