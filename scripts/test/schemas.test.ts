import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as assistant from '@oselya/assistant';
import * as collector from '@oselya/collector';
import { compileAll } from '@oselya/kit/testing';

test('every schema of a request or an answer can be compiled, which a server does when it needs it', async () => {
  await assistant.openapi();
  await collector.openapi();
  assert.doesNotThrow(compileAll);
});
