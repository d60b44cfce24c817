import type { ToolResult } from '../tools/run-tool.ts';

/** A tool that was run for an answer, as it is kept with it. */
export type UsedTool = {
  id: string;
  name: string;
  input: unknown;
  status: ToolResult['status'];
  /** What the model is told of it in the answers after this one. */
  output: string;
  /** Which call of the model asked for it, from 1. */
  round: number;
};

/** What an answer used, as it was stored; rows of an older system may hold anything. */
export function readUsedTools(value: unknown): UsedTool[] {
  return Array.isArray(value) ? value.filter(isUsedTool) : [];
}

function isUsedTool(value: unknown): value is UsedTool {
  if (typeof value !== 'object' || value === null) return false;
  const { id, name, output, round } = value as Partial<UsedTool>;
  return [id, name, output].every((text) => typeof text === 'string') && Number.isInteger(round);
}
