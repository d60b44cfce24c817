import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openHostileAssistant } from './hostile-assistant.ts';
import { fileCases, routeCases, webhookCases } from './requests.ts';
import { cookieCases, signInCases } from './sign-in.ts';
import { rawHttpCases, socketCases } from './wire.ts';

/**
 * Plays generated requests of every kind.
 * @param scale Share of the full run, which has more than 10,000 cases.
 */
export async function playHostileRequests(scale: number): Promise<void> {
  const assistant = await openHostileAssistant(scale);
  signInCases(assistant);
  cookieCases(assistant);
  webhookCases(assistant);
  await routeCases(assistant);
  fileCases(assistant);
  socketCases(assistant);
  rawHttpCases(assistant);
  test('all generated cases were played', (context) => {
    context.diagnostic(`${assistant.played()} cases`);
    assert.ok(assistant.played() >= 10_000 * scale);
  });
}
