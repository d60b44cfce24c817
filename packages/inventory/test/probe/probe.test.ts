import assert from 'node:assert/strict';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type EndpointRecord, probeAll, probeRecord } from '@oselya/inventory';
import { VALID_RECORD } from '../support/findings.ts';
import { certificate, dripping, listen, NOW, secure, secureSocket } from '../support/servers.ts';

function record(more: Partial<EndpointRecord>): EndpointRecord {
  return { ...VALID_RECORD, exposure: 'local', ...more };
}

const ask = ({ port }: { port: number }, ca?: string) =>
  probeRecord(record({ url: `https://localhost:${port}/` }), { ca, now: NOW });

const askBriefly = (port: number) =>
  probeRecord(record({ url: `https://127.0.0.1:${port}/` }), { timeoutMs: 300 });

const codes = ({ problems }: { problems: { code: string }[] }) => problems.map(({ code }) => code);

test('a server that answers, with a certificate that is trusted and lasts', async () => {
  const { port, ca } = await secure();
  const found = await probeRecord(record({ url: `https://localhost:${port}/` }), { ca, now: NOW });
  assert.deepEqual(found.problems, []);
  assert.equal(found.isReachable, true);
  assert.equal(found.target, `localhost:${port}`);
  assert.deepEqual(found.answer, { status: 200, redirectsTo: null });
  assert.equal(found.certificate?.isForName, true);
});

test('certificates that ended, end soon, are nobody’s, or for another name', async () => {
  const ended = await secure({ from: -90, days: -2 });
  const soon = await secure({ days: 5 });
  const other = await secure({ name: 'other.example.test' });
  assert.deepEqual(codes(await ask(ended, ended.ca)), ['probe/certificate-ended']);
  assert.deepEqual(codes(await ask(soon, soon.ca)), ['probe/certificate-ends']);
  assert.deepEqual(codes(await ask(soon)), [
    'probe/certificate-ends',
    'probe/certificate-untrusted',
  ]);
  assert.deepEqual(codes(await ask(other, other.ca)), ['probe/certificate-name']);
});

test('a certificate that lasts is not trusted when one above it has ended', async () => {
  const authority = { name: 'Authority', from: -90 };
  const lasting = await certificate(authority);
  const over = await certificate({ ...authority, days: -2 });
  const trusted = await secure({ issuer: lasting });
  assert.deepEqual((await ask(trusted, trusted.ca)).problems, []);
  const untrusted = await secure({ issuer: over });
  const found = await ask(untrusted, untrusted.ca);
  assert.deepEqual(codes(found), ['probe/certificate-untrusted']);
  assert.match(found.problems[0]?.message ?? '', /one above it has ended \(CERT_HAS_EXPIRED\)/);
  // Where both have ended, that is told of the one that has to be replaced.
  const both = await secure({ issuer: over, from: -90, days: -2 });
  assert.deepEqual(codes(await ask(both, both.ca)), ['probe/certificate-ended']);
});

test('what is wrong is told in words, with the code of the system', async () => {
  const { port } = await secure();
  const signed = await ask({ port });
  assert.match(signed.problems[0]?.message ?? '', /it has signed itself \(DEPTH_ZERO_SELF_SIGNED/);
  const issuer = await certificate({ name: 'Authority' });
  const stranger = await ask(await secure({ issuer }));
  assert.match(stranger.problems[0]?.message ?? '', /who signed it is not known.+ \(UNABLE_TO_/);
  const plain = await listen(createHttpServer((_, response) => response.end()));
  const mistaken = await ask({ port: plain });
  assert.deepEqual(codes(mistaken), ['probe/silent']);
  assert.match(mistaken.problems[0]?.message ?? '', /does not speak TLS/);
  const secret = await probeRecord(record({ url: `http://localhost:${port}/` }));
  assert.deepEqual(codes(secret), ['probe/silent']);
});

test('the certificate of every protocol with TLS is read', async () => {
  const { port, ca } = await secureSocket(() => undefined);
  for (const scheme of ['rediss', 'imaps', 'ftps', 'pop3s', 'rtsps', 'wss']) {
    const { problems, certificate: shown } = await probeRecord(
      record({ url: `${scheme}://localhost:${port}/` }),
      { ca },
    );
    assert.deepEqual(problems, [], scheme);
    assert.equal(shown?.isForName, true, scheme);
  }
  const { certificate: shown } = await probeRecord(
    record({ host: 'localhost', port, protocol: 'TLS' }),
    { ca },
  );
  assert.equal(shown?.isForName, true);
});

test('nobody listens, or somebody who says nothing, or closes at once', async () => {
  const silent = await listen(createServer());
  const rude = await listen(createServer((socket) => socket.destroy()));
  const free = createServer();
  const freePort = await listen(free);
  await new Promise((done) => free.close(done));
  const quiet = await askBriefly(silent);
  assert.deepEqual([codes(quiet), quiet.isReachable], [['probe/silent'], true]);
  assert.deepEqual(codes(await askBriefly(rude)), ['probe/silent']);
  const nobody = await askBriefly(freePort);
  assert.deepEqual([codes(nobody), nobody.isReachable], [['probe/unreachable'], false]);
  assert.match(nobody.problems[0]?.message ?? '', /nothing listens there.* \(ECONNREFUSED\)/);
});

test('a server that answers byte by byte is left at the end of the time', async () => {
  const slow = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.write('HTTP/1.1 200 OK\r\nx-slow: ');
    const drip = setInterval(() => socket.write('a'), 50);
    socket.on('close', () => clearInterval(drip));
  });
  const port = await listen(slow);
  const found = await probeRecord(record({ url: `http://127.0.0.1:${port}/` }), { timeoutMs: 300 });
  assert.deepEqual(codes(found), ['probe/silent']);
});

test('a server that says its certificate or its answer byte by byte is left as well', async () => {
  const secured = await secure();
  const handshake = await dripping(secured.port);
  const unread = await probeRecord(record({ url: `https://localhost:${handshake}/` }), {
    ca: secured.ca,
    timeoutMs: 1000,
  });
  assert.deepEqual(codes(unread), ['probe/silent']);
  assert.equal(unread.isReachable, true);
  assert.equal(unread.certificate, undefined);

  const slow = await secureSocket((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nx-slow: ');
    const drip = setInterval(() => socket.write('a'), 50);
    socket.on('close', () => clearInterval(drip));
  });
  const answering = await probeRecord(record({ url: `https://localhost:${slow.port}/` }), {
    ca: slow.ca,
    timeoutMs: 2000,
  });
  assert.deepEqual(codes(answering), ['probe/silent']);
  assert.equal(answering.certificate?.isForName, true);
  assert.equal(answering.answer, undefined);
});

test('a redirect is told, and not followed', async () => {
  let asked = 0;
  const target = await listen(
    createHttpServer((_, response) => response.end(String((asked += 1)))),
  );
  const port = await listen(
    createHttpServer((_, response) => {
      response.writeHead(302, { location: `http://127.0.0.1:${target}/` }).end();
    }),
  );
  const found = await probeRecord(record({ url: `http://127.0.0.1:${port}/x?y` }));
  assert.deepEqual(found.answer, { status: 302, redirectsTo: `http://127.0.0.1:${target}/` });
  assert.equal(asked, 0);
});

test('an answer of 500 and more is a problem, but 404 and what says nothing about GET are not', async () => {
  const port = await listen(
    createHttpServer((request, response) => {
      const statuses: Record<string, number> = { '/broken': 503, '/get-only': 501 };
      response.writeHead(statuses[request.url ?? ''] ?? 404).end();
    }),
  );
  const get = (path: string) => probeRecord(record({ url: `http://127.0.0.1:${port}${path}` }));
  assert.deepEqual(codes(await get('/broken')), ['probe/http-error']);
  assert.deepEqual(codes(await get('/none')), []);
  assert.deepEqual(codes(await get('/get-only')), []);
});

test('what is declared public has to have an address of the internet', async () => {
  const port = await listen(createServer());
  const found = await probeRecord(record({ host: '127.0.0.1', port, exposure: 'public' }));
  assert.deepEqual(codes(found), ['probe/exposure']);
  assert.deepEqual(codes(await probeRecord(record({ host: '127.0.0.1', port }))), []);
});

test('a record that says nowhere, or UDP, is not probed', async () => {
  for (const [more, target] of [
    [{}, null],
    [{ host: 'a b', port: 1 }, null],
    [{ host: '127.0.0.1', port: 53, protocol: 'udp' }, '127.0.0.1:53'],
    [{ url: 'coaps://127.0.0.1/light' }, '127.0.0.1:5684'],
  ] as const) {
    const found = await probeRecord(record(more));
    assert.deepEqual([found.target, found.isReachable, found.problems], [target, null, []]);
  }
});

test('few are looked at at once, and each is told', async () => {
  let open = 0;
  let most = 0;
  const server = createHttpServer((_, response) => {
    open += 1;
    most = Math.max(most, open);
    setTimeout(() => {
      open -= 1;
      response.end();
    }, 30);
  });
  const port = await listen(server);
  const records = Array.from({ length: 12 }, (_, n) =>
    record({ id: `r${n}`, url: `http://127.0.0.1:${port}/${n}` }),
  );
  const found = await Array.fromAsync(probeAll(records, { concurrency: 3, perSecond: 1000 }));
  assert.deepEqual(found.map(({ id }) => id).toSorted(), records.map(({ id }) => id).toSorted());
  assert.ok(most > 1 && most <= 3, `${most} at once`);
});

test('no more begin within a second than are allowed', async () => {
  const all = Promise.withResolvers<void>();
  const begun: number[] = [];
  const port = await listen(
    createServer((socket) => {
      if (begun.push(performance.now()) === 5) all.resolve();
      socket.destroy();
    }),
  );
  const records = Array.from({ length: 5 }, (_, n) =>
    record({ id: `r${n}`, host: '127.0.0.1', port }),
  );
  const before = performance.now();
  // Timers begin at the time that the event loop has noted last: from here on, that is later than `before`.
  await sleep(1);
  await Array.fromAsync(probeAll(records, { perSecond: 10 }));
  await all.promise;
  // Whatever delays a connection makes its time later only. Timers may fire a little early.
  for (const [nth, at] of begun.entries()) assert.ok(at - before >= 100 * nth - 5, begun.join());
});

test('who stops it is told why, and nothing more is begun', async () => {
  let asked = 0;
  const reason = new Error('enough');
  const stopping = new AbortController();
  const port = await listen(
    createServer(() => {
      asked += 1;
      stopping.abort(reason);
    }),
  );
  const records = Array.from({ length: 5 }, (_, n) =>
    record({ id: `r${n}`, url: `http://127.0.0.1:${port}/` }),
  );
  const probing = probeAll(records, { concurrency: 1, perSecond: 1000, signal: stopping.signal });
  await assert.rejects(Array.fromAsync(probing), reason);
  assert.equal(asked, 1);
});

test('who stops it while nothing is in progress is told why as well', async () => {
  const reason = new Error('enough');
  const stopping = new AbortController();
  const probing = probeAll([record({ id: 'r1' }), record({ id: 'r2' })], {
    perSecond: 0.01,
    signal: stopping.signal,
  });
  assert.equal((await probing.next()).value?.id, 'r1');
  const second = probing.next();
  stopping.abort(reason);
  await assert.rejects(second, reason);
});

test('what is known is told while others are still waited for', async () => {
  const silent = await listen(createServer());
  const quick = await listen(createHttpServer((_, response) => response.end()));
  const records = [silent, quick].map((port) =>
    record({ id: String(port), url: `http://127.0.0.1:${port}/` }),
  );
  const probing = probeAll(records, { perSecond: 1000, timeoutMs: 60_000 });
  const first = await probing.next();
  assert.equal(first.value?.id, String(quick));
  // Who takes no more waits for nobody.
  await probing.return();
});

test('no more are begun than are taken, of records that come one by one', async () => {
  let given = 0;
  function* endless() {
    for (;;) yield record({ id: `r${(given += 1)}` });
  }
  const probing = probeAll(endless(), { concurrency: 2, perSecond: 1000 });
  for (const id of ['r1', 'r2', 'r3']) assert.equal((await probing.next()).value?.id, id);
  await probing.return();
  assert.ok(given <= 5, `${given} given`);
});

test('rates beyond the limits are refused', async () => {
  for (const options of [
    { concurrency: 65 },
    { concurrency: 0 },
    { perSecond: 1001 },
    { perSecond: NaN },
  ]) {
    await assert.rejects(probeAll([], options).next(), RangeError);
  }
});

test('a certificate that is nobody’s and ended is told as ended, whatever its name is', async () => {
  const { port } = await secure({ name: 'other.example.test', from: -90, days: -2 });
  const found = await ask({ port });
  // Of what is wrong with its trust, Node tells one thing; that is the end, which is read by itself as well.
  assert.deepEqual(codes(found), ['probe/certificate-ended', 'probe/certificate-name']);
});

test('where a server redirects to is told without credentials', async () => {
  const location = 'https://u:hunter2@a.example/?token=hunter2';
  const port = await listen(
    createHttpServer((_, response) => response.writeHead(302, { location }).end()),
  );
  const found = await probeRecord(record({ url: `http://127.0.0.1:${port}/` }));
  assert.equal(found.answer?.redirectsTo, 'https://***@a.example/?token=***');
});
