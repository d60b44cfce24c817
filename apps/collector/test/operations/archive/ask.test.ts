import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { createSafeFetch } from '../../../src/safe-fetch/index.ts';
import { createAsk } from '../../../src/operations/archive/ask.ts';
import { startSite } from './site.ts';

const agents: (string | undefined)[] = [];
const endless = Promise.withResolvers<Socket>();

const site = await startSite((request, response) => {
  agents.push(request.headers['user-agent']);
  const [, kind = '', rest = ''] = (request.url ?? '').split('/');
  if (kind === 'silent') return;
  if (kind === 'to') {
    response.writeHead(302, { location: `/${rest}` }).end();
  } else if (kind === 'endless') {
    response.writeHead(200);
    response.write('<html>');
    endless.resolve(request.socket);
  } else {
    response.writeHead(Number(kind)).end('text');
  }
});

const fetch = createSafeFetch({ allow: ['127.0.0.1'] });
const ask = createAsk(fetch);
const never = new AbortController().signal;

test('404 and 410 are gone, trouble of the site is no answer, all else is present', async () => {
  const states: Record<string, number[]> = {
    gone: [404, 410],
    present: [200, 204, 400, 401, 403, 451],
    unreachable: [408, 425, 429, 500, 502, 503, 504],
  };
  for (const [state, statuses] of Object.entries(states)) {
    for (const status of statuses) {
      assert.deepEqual(await ask(`${site.url}/${status}`, never), { state, status });
    }
  }
  assert.ok(agents.every((agent) => agent === 'oselya'));
});

test('the answer at the end of redirects counts, and a circle is no answer', async () => {
  assert.deepEqual(await ask(`${site.url}/to/410`, never), { state: 'gone', status: 410 });
  const round = await startSite((_request, response) => {
    response.writeHead(301, { location: '/' }).end();
  });
  assert.equal((await ask(round.url, never)).state, 'unreachable');
  assert.equal(round.asked.length, 6);
});

test('the body is not waited for, and the connection ends', async () => {
  assert.deepEqual(await ask(`${site.url}/endless`, never), { state: 'present', status: 200 });
  const socket = await endless.promise;
  if (!socket.closed) await once(socket, 'close');
});

test('silence, refused addresses and hosts that are not there are unreachable', async () => {
  const unreachable = { state: 'unreachable', status: null };
  const hasty = createAsk(fetch, { timeoutMs: 50 });
  assert.deepEqual(await hasty(`${site.url}/silent`, never), unreachable);
  const careful = createAsk(createSafeFetch({ allow: [] }));
  const before = site.asked.length;
  assert.deepEqual(await careful(`${site.url}/404`, never), unreachable);
  assert.equal(site.asked.length, before, 'an address of this machine is not asked');
  for (const url of [
    'http://127.0.0.1:9/',
    'ftp://127.0.0.1/',
    'no address',
    'http://a.invalid/',
  ]) {
    assert.deepEqual(await ask(url, never), unreachable, url);
  }
});

test('whoever ends the run hears of it', async () => {
  const ended = new AbortController();
  const asking = ask(`${site.url}/silent`, ended.signal);
  ended.abort(new Error('enough'));
  await assert.rejects(asking, /enough/);
});
