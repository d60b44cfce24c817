import type { Profile } from '../profiles/profile-file.ts';
import { toDefinitions, type Tools } from '../tools/tools.ts';
import { estimateRequest } from './estimate.ts';
import { leastAnswerTokens } from './window.ts';

/**
 * Makes what holds a profile against the model's window: its instructions and tools go along with each question, and
 * have to leave room for one, and for its answer.
 * @param contextTokens The window: MODEL_CONTEXT_TOKENS.
 * @returns Gives the rule that a profile breaks, in words for who writes it; nothing where all is well.
 */
export function checkInstructions({
  tools,
  contextTokens,
}: {
  tools: Tools;
  contextTokens: number;
}): (profile: Profile) => string | undefined {
  const most = contextTokens - 2 * leastAnswerTokens(contextTokens);
  return (profile) => {
    const definitions = toDefinitions(tools.of(profile, { hasFiles: true }));
    const { system } = profile;
    const tokens = estimateRequest({ system, messages: [], tools: definitions });
    if (tokens <= most) return undefined;
    return `system and tools are about ${tokens} tokens, and MODEL_CONTEXT_TOKENS leaves them ${most}: shorten system or list fewer tools, or raise MODEL_CONTEXT_TOKENS where the model's server takes more`;
  };
}
