import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Assistant } from '../../src/chat/assistant.ts';
import { KeptSignIns } from '../../src/chat/kept-sign-ins.ts';
import { startServer } from '../support/loopback.ts';

const home = mkdtempSync(join(tmpdir(), 'kept-sign-ins-'));
after(() => rmSync(home, { recursive: true }));
const kept = new KeptSignIns({ XDG_CONFIG_HOME: home });

let given: object;
const { url } = await startServer(() => ({ body: given }));
const redeem = (answer: object) => {
  given = answer;
  return new Assistant(url, () => undefined).redeem('code', 'verifier');
};

const session_id = 'a'.repeat(43);

test('what an assistant gives is kept beside the sign-ins at others', async () => {
  const ours = await redeem({ cookie_name: '__Host-oselya', session_id });
  await kept.keep('https://one.example', ours);
  await kept.keep('https://other.example', await redeem({ cookie_name: 'sid', session_id }));
  assert.deepEqual(await kept.find('https://one.example'), ours);
  assert.deepEqual(ours, { name: '__Host-oselya', value: session_id });
});

for (const [what, answer] of Object.entries({
  'a name that is none': { cookie_name: 'a=b; c', session_id },
  'a name with a line end': { cookie_name: 'a\r\nx: y', session_id },
  'no name': { cookie_name: '', session_id },
  'a name without end': { cookie_name: 'a'.repeat(65), session_id },
  'a value with more in it': { cookie_name: 'a', session_id: `${session_id}; b=c` },
})) {
  test(`${what} of a cookie is refused, and never kept`, async () => {
    await assert.rejects(
      redeem(answer),
      /gave a cookie that is none of an assistant.*set BASE_URL/,
    );
  });
}
