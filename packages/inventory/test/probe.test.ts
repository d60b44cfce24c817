import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer, type Server as HttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, test } from 'node:test';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { type EndpointRecord, probeAll, probeRecord } from '@oselya/inventory';
import { generate } from 'selfsigned';
import { findExposureProblems, PROBE_CODES } from '../src/probe/probe.ts';
import { listFieldPaths, run, VALID_RECORD } from './support.ts';

const NOW = Date.now();
const DAY_MS = 86_400_000;

type CertificateOptions = {
  name?: string;
  /** Days from now, negative for the past. */
  from?: number;
  days?: number;
  issuer?: { private: string; cert: string };
};

function certificate(options: CertificateOptions = {}) {
  const { name = 'localhost', from = -1, days = 90, issuer } = options;
  return generate([{ name: 'commonName', value: name }], {
    keyType: 'ec',
    // OpenSSL accepts nothing weaker from an issuer.
    algorithm: 'sha256',
    notBeforeDate: new Date(NOW + from * DAY_MS),
    notAfterDate: new Date(NOW + days * DAY_MS),
    extensions: [
      { name: 'basicConstraints', cA: issuer === undefined },
      { name: 'subjectAltName', altNames: [{ type: 2, value: name }] },
    ],
    ...(issuer && { ca: { key: issuer.private, cert: issuer.cert } }),
  });
}

/** Listens until the end of the tests and returns the port. */
async function listen(server: Server | HttpServer): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  after(() => {
    server.close();
    if ('closeAllConnections' in server) server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

async function secure(options: CertificateOptions = {}) {
  const { private: key, cert } = await certificate(options);
  const port = await listen(createHttpsServer({ key, cert }, (_, response) => response.end('ok')));
  return { port, ca: options.issuer?.cert ?? cert };
}

async function secureSocket(onSocket: (socket: TLSSocket) => void) {
  const { private: key, cert } = await certificate();
  const server = createTlsServer({ key, cert }, (socket) => {
    socket.on('error', () => undefined);
    onSocket(socket);
  });
  return { port: await listen(server), ca: cert };
}

function sendHeaderSlowly(socket: Socket): void {
  socket.on('error', () => undefined);
  socket.write('HTTP/1.1 200 OK\r\nx-slow: ');
  const timer = setInterval(() => socket.write('a'), 50);
  socket.on('close', () => clearInterval(timer));
}

function record(more: Partial<EndpointRecord>): EndpointRecord {
  return { ...VALID_RECORD, exposure: 'local', ...more };
}

const probe = ({ port }: { port: number }, ca?: string) =>
  probeRecord(record({ url: `https://localhost:${port}/` }), { ca, now: NOW });
const codes = ({ problems }: { problems: { code: string }[] }) => problems.map(({ code }) => code);

test('Expiry, trust and name of a certificate are judged separately', async () => {
  const authority = { name: 'Authority', from: -90 };
  const valid = await certificate(authority);
  const expired = await certificate({ ...authority, days: -2 });
  const past = { from: -90, days: -2 };
  for (const [options, isTrusted, expected] of [
    [past, true, ['probe/certificate-ended']],
    [{ days: 5 }, true, ['probe/certificate-ends']],
    [{ days: 5 }, false, ['probe/certificate-ends', 'probe/certificate-untrusted']],
    [{ name: 'other.example.test' }, true, ['probe/certificate-name']],
    [{ ...past, name: 'a.test' }, false, ['probe/certificate-ended', 'probe/certificate-name']],
    [{ issuer: valid }, true, []],
    [{ issuer: expired }, true, ['probe/certificate-untrusted']],
    [{ ...past, issuer: expired }, true, ['probe/certificate-ended']],
  ] as const) {
    const server = await secure(options);
    const found = await probe(server, isTrusted ? server.ca : undefined);
    assert.deepEqual(codes(found), expected, JSON.stringify(options));
    assert.deepEqual([found.isReachable, found.target], [true, `localhost:${server.port}`]);
    assert.deepEqual(found.answer, { status: 200, redirectsTo: null });
  }
});

test('Problems have an explanation and the code of the system', async () => {
  const self = await secure();
  const issued = await secure({ issuer: await certificate({ name: 'Authority' }) });
  const plain = { port: await listen(createHttpServer((_, response) => response.end())) };
  const closed = createServer();
  const closedPort = await listen(closed);
  await new Promise((done) => closed.close(done));
  for (const [server, message] of [
    [self, /it is self-signed \(DEPTH_ZERO_SELF_SIGNED/],
    [issued, /its issuer is unknown.+ \(UNABLE_TO_/],
    [plain, /does not speak TLS/],
    [{ port: closedPort }, /nothing listens there.* \(ECONNREFUSED\)/],
  ] as const) {
    assert.match((await probe(server)).problems[0]?.message ?? '', message);
  }
  const http = await probeRecord(record({ url: `http://localhost:${self.port}/` }));
  assert.deepEqual(codes(http), ['probe/silent']);
});

test('A probe of a silent, closed or slow server ends after the timeout', async () => {
  const slow = await secureSocket(sendHeaderSlowly);
  const closing = await listen(createServer((socket) => socket.destroy()));
  for (const [url, ca, timeoutMs, hasCertificate] of [
    [`http://127.0.0.1:${await listen(createServer())}/`, undefined, 300, false],
    [`http://127.0.0.1:${closing}/`, undefined, 300, false],
    [`http://127.0.0.1:${await listen(createServer(sendHeaderSlowly))}/`, undefined, 300, false],
    [`https://localhost:${await listen(createServer())}/`, undefined, 300, false],
    [`https://localhost:${slow.port}/`, slow.ca, 2000, true],
  ] as const) {
    const found = await probeRecord(record({ url }), { ca, timeoutMs });
    assert.deepEqual([codes(found), found.isReachable], [['probe/silent'], true], url);
    assert.deepEqual([found.certificate !== undefined, found.answer], [hasCertificate, undefined]);
  }
});

test('Answers of 500 and more are problems, and redirects are not followed', async () => {
  let requests = 0;
  const target = await listen(
    createHttpServer((_, response) => response.end(`${(requests += 1)}`)),
  );
  const answers: Record<string, [number, string?]> = {
    '/broken': [503],
    '/get-only': [501],
    '/moved?x': [302, `http://127.0.0.1:${target}/`],
    '/secret': [302, 'https://u:hunter2@a.example/?token=hunter2'],
  };
  const port = await listen(
    createHttpServer((request, response) => {
      const [status, location] = answers[request.url ?? ''] ?? [404];
      response.writeHead(status, location === undefined ? {} : { location }).end();
    }),
  );
  for (const [path, status, redirectsTo, problems] of [
    ['/broken', 503, null, ['probe/http-error']],
    ['/none', 404, null, []],
    ['/get-only', 501, null, []],
    ['/moved?x', 302, `http://127.0.0.1:${target}/`, []],
    ['/secret', 302, 'https://***@a.example/?token=***', []],
  ] as const) {
    const found = await probeRecord(record({ url: `http://127.0.0.1:${port}${path}` }));
    assert.deepEqual([found.answer, codes(found)], [{ status, redirectsTo }, problems], path);
  }
  assert.equal(requests, 0);
});

test('Addresses are compared with the declared exposure', async () => {
  const [loopback, network, internet] = ['127.0.0.1', '192.168.1.7', '2a02:2f0::7'];
  for (const [exposure, addresses, problem] of [
    ['public', [network, internet], null],
    ['public', [loopback, network], 'it is declared public, but has no internet address'],
    ['private', [network, loopback], null],
    ['private', [network, internet], 'it is declared private, but answers at an internet address'],
    ['vpn', [internet], 'it is declared vpn, but answers at an internet address'],
    ['local', [loopback], null],
    ['local', [network], 'it is declared local, but answers at a network address'],
    ['local', [internet], 'it is declared local, but answers at an internet address'],
    ['unknown', [internet], null],
  ] as const) {
    const message = `${problem}: ${addresses.join(', ')}`;
    const expected = problem === null ? [] : [{ code: 'probe/exposure', message }];
    assert.deepEqual(findExposureProblems({ exposure }, addresses), expected);
  }
  const port = await listen(createServer());
  const found = await probeRecord(record({ host: loopback, port, exposure: 'public' }));
  assert.deepEqual(codes(found), ['probe/exposure']);
});

test('Concurrent probes are limited, and results are yielded as they finish', async () => {
  let current = 0;
  let highest = 0;
  const busy = createHttpServer((_, response) => {
    current += 1;
    highest = Math.max(highest, current);
    setTimeout(() => {
      current -= 1;
      response.end();
    }, 30);
  });
  const port = await listen(busy);
  const url = `http://127.0.0.1:${port}/`;
  const records = Array.from({ length: 12 }, (_, nth) => record({ id: `r${nth}`, url }));
  const found = await Array.fromAsync(probeAll(records, { concurrency: 3, perSecond: 1000 }));
  assert.equal(new Set(found.map(({ id }) => id)).size, 12);
  assert.ok(highest > 1 && highest <= 3, `${highest} at once`);

  const silent = `http://127.0.0.1:${await listen(createServer())}/`;
  const waiting = [record({ id: 'silent', url: silent }), record({ id: 'busy', url })];
  const probing = probeAll(waiting, { perSecond: 1000, timeoutMs: 60_000 });
  assert.equal((await probing.next()).value?.id, 'busy');
  await probing.return();
});

test('Probes follow the rate, stop with their signal, and start only when consumed', async () => {
  let requests = 0;
  const reason = new Error('enough');
  const stopping = new AbortController();
  const server = createServer(() => {
    requests += 1;
    stopping.abort(reason);
  });
  const url = `http://127.0.0.1:${await listen(server)}/`;
  const records = Array.from({ length: 5 }, (_, nth) => record({ id: `r${nth}`, url }));
  const options = { concurrency: 1, perSecond: 1000, signal: stopping.signal };
  await assert.rejects(Array.fromAsync(probeAll(records, options)), reason);
  assert.equal(requests, 1);

  const idle = new AbortController();
  const two = [record({ id: 'r1' }), record({ id: 'r2' })];
  const pausing = probeAll(two, { perSecond: 0.01, signal: idle.signal });
  assert.equal((await pausing.next()).value?.id, 'r1');
  const second = pausing.next();
  idle.abort(reason);
  await assert.rejects(second, reason);

  let given = 0;
  function* endless() {
    for (;;) yield record({ id: `r${(given += 1)}` });
  }
  const lazy = probeAll(endless(), { concurrency: 2, perSecond: 1000 });
  for (const id of ['r1', 'r2', 'r3']) assert.equal((await lazy.next()).value?.id, id);
  await lazy.return();
  assert.ok(given <= 5, `${given} given`);
  const [many, none] = [{ concurrency: 65 }, { concurrency: 0 }];
  for (const wrong of [many, none, { perSecond: 1001 }, { perSecond: NaN }]) {
    await assert.rejects(probeAll([], wrong).next(), RangeError);
  }
});

test('The command prints each endpoint, selects records, and trusts --ca', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'inventory-probe-'));
  after(() => rm(folder, { recursive: true }));
  const { port, ca } = await secure();
  const closing = await listen(createServer((socket) => socket.destroy()));
  const pem = join(folder, 'ca.pem');
  await writeFile(pem, ca);
  const records = [
    record({ id: 'good', url: `https://localhost:${port}/` }),
    record({ id: 'closing', url: `https://localhost:${closing}/` }),
    record({ id: 'nowhere', exposure: 'private' }),
  ];
  const command = async (...args: string[]) => {
    const stdin = Readable.from([Buffer.from(JSON.stringify(records))]);
    return run(['probe', '--concurrency', '1', ...args, '-'], { stdin });
  };
  const trusted = await command('--ca', pem);
  assert.deepEqual([trusted.status, trusted.stderr], [1, '']);
  assert.match(
    trusted.stdout,
    /^ok +"good" localhost:\d+: certificate to \d{4}-\d\d-\d\d; HTTP 200\nproblem "closing" localhost:\d+: .+ \[probe\/silent\]\nskipped "nowhere": the record names no host and port\n3 endpoints, 1 with problems, 1 not probed\n$/,
  );
  assert.match((await command()).stdout, /^problem "good" .+ \[probe\/certificate-untrusted\]/);
  const selected = await command('--format', 'json', '--exposure', 'private');
  const [only, ...others] = JSON.parse(selected.stdout);
  assert.deepEqual([only.id, only.isReachable, others], ['nowhere', null, []]);
  const none = await command('--type', 'metrics');
  assert.equal(none.stdout, '0 endpoints, 0 with problems\n');

  const path = new URL('../../../docs/inventory/output.md', import.meta.url);
  const page = await readFile(path, 'utf8');
  const [, section = '', list = ''] =
    /\n## Observations of probe\n([^]*?)\n## Codes of observations\n([^]*)/.exec(page) ?? [];
  const [, shown = ''] = /^```json\n([^]*?)^```$/m.exec(section) ?? [];
  const endpoint = record({ exposure: 'public', url: `https://localhost:${port}/` });
  const stdin = Readable.from([Buffer.from(JSON.stringify([endpoint]))]);
  const actual = JSON.parse((await run(['probe', '--format', 'json', '-'], { stdin })).stdout);
  const names = Array.from(section.matchAll(/^\| `([^`]+)`/gm), ([, name = '']) => name);
  assert.deepEqual(listFieldPaths(JSON.parse(shown)), listFieldPaths(actual));
  assert.deepEqual(names.toSorted(), listFieldPaths(actual).toSorted());
  const listed = Array.from(list.matchAll(/^\| `([^`]+)`/gm), ([, code = '']) => code);
  assert.deepEqual(listed, [...PROBE_CODES]);
});
