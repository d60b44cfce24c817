import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cookieCases } from './cookies.ts';
import { fileCases } from './files.ts';
import { openHostileAssistant } from './hostile-assistant.ts';
import { rawHttpCases } from './raw-http.ts';
import { routeCases } from './routes.ts';
import { signInCases } from './sign-in.ts';
import { socketCases } from './sockets.ts';
import { webhookCases } from './webhooks.ts';

const assistant = await openHostileAssistant();

signInCases(assistant);
cookieCases(assistant);
webhookCases(assistant);
await routeCases(assistant);
fileCases(assistant);
socketCases(assistant);
rawHttpCases(assistant);

test('more than ten thousand generated cases were played', (context) => {
  context.diagnostic(`${assistant.played()} cases`);
  assert.ok(assistant.played() >= 10_000);
});
