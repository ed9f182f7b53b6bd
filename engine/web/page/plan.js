// Plans of a model that plans, executes and thinks: calls whose arguments are steps, each a call of a tool.
import { parsed } from "./text.js";

/** Whether a call of this tool is a plan: its schema has `steps` that each name a `tool`. */
export const takesPlans = (tool) => tool.parameters?.properties?.steps?.items?.properties?.tool !== undefined;

/** A plan and what became of each of its steps. */
export function planOf(args, result) {
  const results = parsed(result);
  const steps = parsed(args)?.steps;
  return Array.isArray(steps) ? steps.map((step, place) => ({
    name: `${step?.tool}`, args: JSON.stringify(step?.arguments ?? {}),
    status: `${results?.[place]?.status ?? ""}`, result: `${results?.[place]?.result ?? ""}`,
  })) : null;
}
