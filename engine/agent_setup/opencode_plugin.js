// Asks `endstop hook` before and after each tool, at each prompt and at the end of the work.
// It fails open: whatever goes wrong with endstop, opencode goes on as without it.
import { spawn } from "node:child_process";

const HOOK = __HOOK__;
const HOOK_AT_END = __HOOK_AT_END__;
const SECONDS = __SECONDS__;
const SECONDS_AT_END = __SECONDS_AT_END__;

// Resolves to the hook's answer; to {} if there is none, in time and in JSON.
const ask = (event, [program, ...options] = HOOK, seconds = SECONDS) =>
  new Promise((resolve) => {
    let out = "";
    let timer;
    const answer = (text) => {
      clearTimeout(timer);
      try {
        resolve(JSON.parse(text) ?? {});
      } catch {
        resolve({});
      }
    };
    try {
      const child = spawn(program, options, { cwd: event.cwd, stdio: ["pipe", "pipe", "ignore"], detached: true });
      timer = setTimeout(() => {
        answer("");
        try {
          process.kill(-child.pid, "SIGKILL"); // the check that it runs, too
        } catch {}
      }, seconds * 1000);
      child.on("error", () => answer(""));
      child.on("close", (code) => answer(code === 0 ? out : ""));
      child.stdout.on("data", (piece) => (out += piece));
      child.stdin.on("error", () => {});
      child.stdin.end(JSON.stringify({ ...event, agent: "opencode" }));
    } catch {
      answer("");
    }
  });

export const Endstop = async ({ client, directory }) => {
  const about = (session, name) => ({ hook_event_name: name, session_id: session, cwd: directory });
  const sending = new Set(); // sessions to which a prompt of the hook is on its way
  const sentOn = new Set(); // sessions that the hook has sent on since the person's latest prompt

  const end = async (session) => {
    try {
      await client.session.abort({ path: { id: session } });
    } catch {}
  };
  const show = ({ systemMessage }) => {
    if (!systemMessage) return;
    try {
      client.tui?.showToast({ body: { message: systemMessage, variant: "warning" } })?.catch?.(() => {});
    } catch {}
  };

  return {
    "chat.message": async (input, output) => {
      if (sending.delete(input.sessionID)) return;
      sentOn.delete(input.sessionID);
      const texts = (output?.parts ?? []).filter((part) => part.type === "text" && !part.synthetic);
      const prompt = texts.map((part) => part.text).join("\n");
      if (prompt) show(await ask({ ...about(input.sessionID, "UserPromptSubmit"), prompt }));
    },
    "tool.execute.before": async (input, output) => {
      const said = await ask({
        ...about(input.sessionID, "PreToolUse"),
        tool_name: input.tool,
        tool_input: output.args ?? {},
        tool_use_id: input.callID,
      });
      show(said);
      if (said.continue === false) {
        await end(input.sessionID);
        throw new Error(said.stopReason || "endstop has ended this run.");
      }
      const decision = said.hookSpecificOutput ?? {};
      if (decision.permissionDecision === "deny") throw new Error(decision.permissionDecisionReason || "Denied by endstop.");
    },
    "tool.execute.after": async (input, output) => {
      const failed = Number.isInteger(output.metadata?.exit) && output.metadata.exit !== 0;
      const said = await ask({
        ...about(input.sessionID, failed ? "PostToolUseFailure" : "PostToolUse"),
        tool_name: input.tool,
        tool_input: input.args ?? {},
        tool_use_id: input.callID,
        ...(failed ? { error: output.output } : { tool_response: output.output }),
      });
      show(said);
      const told = said.hookSpecificOutput?.additionalContext;
      if (told) output.output += `\n\n${told}`;
      if (said.continue === false) await end(input.sessionID);
    },
    event: async ({ event }) => {
      if (event.type !== "session.idle") return;
      const session = event.properties.sessionID;
      const stop = { ...about(session, "Stop"), stop_hook_active: sentOn.has(session) };
      const said = await ask(stop, HOOK_AT_END, SECONDS_AT_END);
      show(said);
      if (said.decision !== "block" || !said.reason) return;
      sending.add(session);
      sentOn.add(session);
      try {
        await client.session.prompt({ path: { id: session }, body: { parts: [{ type: "text", text: said.reason }] } });
      } catch {
        sending.delete(session);
      }
    },
  };
};
