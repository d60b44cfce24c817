import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Browser } from '../helpers/assistant.ts';
import { person } from '../helpers/people.ts';
import type { HostileAssistant } from './hostile-assistant.ts';
import { inAddress, MARK, text } from './text.ts';

const OWNER = 'u-hostile-files';
const SESSION = 'c-hostile-files';

/** Names that file systems, shells and headers stumble over. */
const NAMES = [
  'notes.txt',
  'план квартири.pdf',
  'CON',
  'nul.txt',
  'a/b',
  'a\\b',
  '.',
  '..',
  '...',
  '.htaccess',
  'a.txt.',
  'a.txt ',
  'a"b.txt',
  "a'b.txt",
  'a;filename=evil.html',
  'a\r\nset-cookie: b=c',
  'gpj.\u202eexe',
  'e\u0301.txt',
  '*?<>|:',
  '-rf',
  '😀'.repeat(50),
  'x'.repeat(201),
];

const name = fc.oneof(fc.constantFrom(...NAMES), text);

/** Names of files, and what stands in files. */
export function fileCases({ app, db, secrets, signedIn, play, cases }: HostileAssistant): void {
  let browser: Browser | undefined;

  /** Signs the owner in and gives them a session, when first asked. */
  async function owner(): Promise<string> {
    if (browser === undefined) {
      browser = await signedIn(app, person(OWNER));
      secrets.add(browser.sid);
      await db
        .insertInto('conversation_sessions')
        .values({ id: SESSION, user_id: OWNER, profile_id: 'default', name: 'files' })
        .execute();
    }
    return `svc_auth_session=${browser.sid}`;
  }

  cases(
    'a file has a safe name or none, and comes back as it was sent',
    500,
    fc.record({
      segment: inAddress(name),
      content: fc.uint8Array({ maxLength: 200 }).map((one) => Buffer.from(one)),
      type: fc.constantFrom('text/html', 'application/octet-stream', 'image/svg+xml; a=b'),
    }),
    async ({ segment, content, type }) => {
      const headers = { cookie: await owner() };
      const url = `/sessions/${SESSION}/files/${segment}`;
      const payload = Buffer.concat([content, Buffer.from(MARK)]);
      const stored = await play({
        method: 'PUT',
        url,
        headers: { ...headers, 'content-type': type },
        payload,
      });
      if (![200, 201].includes(stored.statusCode)) {
        return assert.ok([400, 404, 422].includes(stored.statusCode), stored.body);
      }
      const { name: kept, media_type: mediaType } = stored.json();
      assert.doesNotMatch(kept, /[/\\\p{Cc}]|^[.\s]|[.\s]$/u);
      assert.equal(kept, kept.normalize('NFC'));

      const got = await play({ url, headers });
      assert.deepEqual(got.rawPayload, payload);
      assert.equal(got.headers['content-type'], mediaType);
      assert.doesNotMatch(mediaType, /html|xml|javascript|ecmascript/);
      assert.equal(got.headers['x-content-type-options'], 'nosniff');
      const disposition = String(got.headers['content-disposition']);
      assert.match(disposition, /^attachment; filename[=*][\t\x20-\x7e\x80-\xff]+$/);
      assert.equal((await play({ method: 'DELETE', url, headers })).statusCode, 200);
    },
  );
}
