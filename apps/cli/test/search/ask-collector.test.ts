import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { after, test } from 'node:test';
import { CommandError } from '../../src/command-error.ts';
import { askCollector } from '../../src/search/ask-collector.ts';

type Answer = { status: number; body: string };

let answer: Answer;
let asked: { request: IncomingMessage; body: unknown };
const server = createServer().listen(0, '127.0.0.1');
server.on('request', (request, response) => void reply(request, response));
await once(server, 'listening');
after(() => server.close());
const address = server.address();
const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;

async function reply(request: IncomingMessage, response: ServerResponse): Promise<void> {
  asked = { request, body: await json(request) };
  response.writeHead(answer.status).end(answer.body);
}

function ask(next: Answer, apiKey?: string, prefix = '') {
  answer = next;
  return askCollector({ url: url + prefix, apiKey }, 'similar', { query: 'дім', limit: 3 });
}

async function refusal(status: number, body: unknown): Promise<string> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const error: unknown = await ask({ status, body: text }).catch((thrown: unknown) => thrown);
  assert.ok(error instanceof CommandError);
  assert.ok(!error.message.includes('\n'));
  return error.message;
}

test('the question is sent as the API wants it, and the whole answer is given', async () => {
  const body = '{"items": [], "took_ms": 1}';
  assert.deepEqual(await ask({ status: 200, body }), { items: [], took_ms: 1 });
  assert.equal(asked.request.method, 'POST');
  assert.equal(asked.request.url, '/api/v1/search/similar');
  assert.equal(asked.request.headers['content-type'], 'application/json');
  assert.equal(asked.request.headers.authorization, undefined);
  assert.deepEqual(asked.body, { query: 'дім', limit: 3 });

  await ask({ status: 200, body }, 'oselya_1_x', '/collector/');
  assert.equal(asked.request.url, '/collector/api/v1/search/similar');
  assert.equal(asked.request.headers.authorization, 'Bearer oselya_1_x');
});

test('a refusal is told in the words of the API', async () => {
  const problem = { title: 'Too many requests', detail: 'Wait\n12 s.\u001B[2J' };
  assert.equal(
    await refusal(429, problem),
    'the collector refused the search (429): Wait 12 s.[2J',
  );
  assert.equal(
    await refusal(422, {
      title: 'Not valid',
      detail: 'A value breaks its rule.',
      errors: [{ path: 'query', message: 'is too long' }],
    }),
    'the collector refused the search (422): query is too long',
  );
  assert.match(
    await refusal(401, { title: 'API key needed' }),
    /: API key needed: set COLLECTOR_API_KEY/,
  );
  assert.match(
    await refusal(502, '<html>Bad gateway'),
    /\(502\) without a reason: set COLLECTOR_URL/,
  );
});

test('an answer that is none of a collector is told as that', async () => {
  for (const body of ['<html>Welcome', '{}', '{"items": [{"listing": {}}]}', '']) {
    assert.match(await refusal(200, body), /is no collector: set COLLECTOR_URL/);
  }
});

test('an answer without end is not read to its end', async () => {
  const closed = Promise.withResolvers<void>();
  let sentMiB = 0;
  const endless = createServer((_request, response) => {
    response.on('close', closed.resolve);
    const chunk = Buffer.alloc(1024 * 1024, ' ');
    const write = () => {
      do sentMiB += 1;
      while (!response.destroyed && response.write(chunk));
    };
    response.on('drain', write);
    write();
  }).listen(0, '127.0.0.1');
  after(() => endless.close());
  await once(endless, 'listening');
  const at = endless.address();
  const port = typeof at === 'object' ? at?.port : '';
  const question = { query: 'x', limit: 1 };
  await assert.rejects(
    askCollector({ url: `http://127.0.0.1:${port}`, apiKey: undefined }, 'fulltext', question),
    /is no collector: set COLLECTOR_URL/,
  );
  await closed.promise;
  assert.ok(sentMiB > 64 && sentMiB < 128, `${sentMiB} MiB`);
});

test('a collector that is not there is told with what to do', async () => {
  const closed = createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const gone = closed.address();
  const port = typeof gone === 'object' ? gone?.port : '';
  await once(closed.close(), 'close');
  await assert.rejects(
    askCollector({ url: `http://127.0.0.1:${port}`, apiKey: undefined }, 'fulltext', {
      query: 'x',
      limit: 1,
    }),
    /cannot be reached \(ECONNREFUSED\): start it with npm start, or set COLLECTOR_URL/,
  );
});
