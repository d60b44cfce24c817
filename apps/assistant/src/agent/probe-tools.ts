import type { Logger } from '@oselya/kit';
import { type ModelClient, ModelError, PROBE_PREFIX, startProbes } from '@oselya/model';
import type { Config } from '../config.ts';
import { PROFILE_TOOLS } from '../tools/tool.ts';
import { toDefinitions, type Tools } from '../tools/tools.ts';

/** Enough for a model that reasons a little before it calls a tool. */
const MAX_TOKENS = 1_000;

/**
 * Probes in the background whether the chat model calls tools, without running them. The mock is not probed.
 * @returns `close` aborts the probe.
 */
export function probeTools(
  config: Pick<Config, 'MODEL_MODE'>,
  {
    model,
    tools,
    log,
  }: {
    model: Pick<ModelClient, 'streamChat' | 'chatModel'>;
    tools: Tools;
    log: Pick<Logger, 'info' | 'warn'>;
  },
): { close: () => Promise<void> } {
  async function run(signal: AbortSignal): Promise<void> {
    const parts = model.streamChat({
      operation: 'probe',
      system: `${PROBE_PREFIX} Search property listings with your tools.`,
      messages: [{ role: 'user', content: 'Знайди двокімнатну квартиру у Львові.' }],
      tools: toDefinitions(tools.of({ tools: [...PROFILE_TOOLS] }, { hasFiles: true })),
      maxOutputTokens: MAX_TOKENS,
      signal,
    });
    for await (const part of parts) if (part.type === 'tool_call') return;
    const message = `MODEL_CHAT (${model.chatModel}) answered a search without calling a tool.`;
    throw new ModelError('MODEL_INVALID_OUTPUT', message);
  }
  const advice =
    'The assistant needs a MODEL_CHAT that calls tools: docs/models.md, The assistant.';
  const probes = config.MODEL_MODE === 'mock' ? [] : [{ name: 'tools', run, advice }];
  return startProbes(probes, log);
}
