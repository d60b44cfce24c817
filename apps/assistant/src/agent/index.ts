/** The agent that answers, as everybody else uses it. */

export { type AgentLimits, fixedLimits, runAgent } from './agent.ts';
export { checkInstructions } from './check-instructions.ts';
export { loadRequest, type RequestDeps } from './load-request.ts';
export { openModel } from './open-model.ts';
export { probeTools } from './probe-tools.ts';
export type { AgentRequest } from './request.ts';
export { summarizeEarlier } from './summarize.ts';
export { type ConversationSummary, findConversationSummary } from './summary.sql.ts';
export { makeTitle } from './title.ts';
export type { UsedTool } from './used-tools.ts';
