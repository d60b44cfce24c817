import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer, type Server as HttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, test } from 'node:test';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { type EndpointRecord, probeAll, probeRecord } from '@oselya/inventory';
import { openFolder } from '@oselya/testing';
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

function createCertificate(options: CertificateOptions = {}) {
  const { name = 'localhost', from = -1, days = 90, issuer } = options;
  return generate([{ name: 'commonName', value: name }], {
    keyType: 'ec',
    // OpenSSL rejects weaker signature algorithms of issuers.
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

/** Starts a server that runs until the tests end, and returns its port. */
async function listen(server: Server | HttpServer): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  after(() => {
    server.close();
    if ('closeAllConnections' in server) server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

async function startHttpsServer(options: CertificateOptions = {}) {
  const { private: key, cert } = await createCertificate(options);
  const port = await listen(createHttpsServer({ key, cert }, (_, response) => response.end('ok')));
  return { port, ca: options.issuer?.cert ?? cert };
}

async function startTlsServer(onSocket: (socket: TLSSocket) => void) {
  const { private: key, cert } = await createCertificate();
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

function createRecord(properties: Partial<EndpointRecord>): EndpointRecord {
  return { ...VALID_RECORD, exposure: 'local', ...properties };
}

const probeServer = ({ port }: { port: number }, ca?: string) =>
  probeRecord(createRecord({ url: `https://localhost:${port}/` }), { ca, now: NOW });
const getCodes = ({ problems }: { problems: { code: string }[] }) =>
  problems.map(({ code }) => code);

test('Expiry, trust and name of a certificate are judged separately', async () => {
  const authority = { name: 'Authority', from: -90 };
  const validIssuer = await createCertificate(authority);
  const expiredIssuer = await createCertificate({ ...authority, days: -2 });
  const expiredDays = { from: -90, days: -2 };
  const expiryAndNameCodes = ['probe/certificate-ended', 'probe/certificate-name'];
  for (const [options, isTrusted, expected] of [
    [expiredDays, true, ['probe/certificate-ended']],
    [{ days: 5 }, true, ['probe/certificate-ends']],
    [{ days: 5 }, false, ['probe/certificate-ends', 'probe/certificate-untrusted']],
    [{ name: 'other.example.test' }, true, ['probe/certificate-name']],
    [{ ...expiredDays, name: 'a.test' }, false, expiryAndNameCodes],
    [{ issuer: validIssuer }, true, []],
    [{ issuer: expiredIssuer }, true, ['probe/certificate-untrusted']],
    [{ ...expiredDays, issuer: expiredIssuer }, true, ['probe/certificate-ended']],
  ] as const) {
    const server = await startHttpsServer(options);
    const observation = await probeServer(server, isTrusted ? server.ca : undefined);
    assert.deepEqual(getCodes(observation), expected, JSON.stringify(options));
    const target = `localhost:${server.port}`;
    const answer = { status: 200, redirectsTo: null };
    assert.partialDeepStrictEqual(observation, { isReachable: true, target, answer });
  }
});

test('Problems have an explanation and the code of the system', async () => {
  const selfSignedServer = await startHttpsServer();
  const issuer = await createCertificate({ name: 'Authority' });
  const issuedServer = await startHttpsServer({ issuer });
  const plainServer = { port: await listen(createHttpServer((_, response) => response.end())) };
  const closedServer = createServer();
  const closedPort = await listen(closedServer);
  await new Promise((resolve) => closedServer.close(resolve));
  for (const [server, message] of [
    [selfSignedServer, /it is self-signed \(DEPTH_ZERO_SELF_SIGNED/],
    [issuedServer, /its issuer is unknown.+ \(UNABLE_TO_/],
    [plainServer, /does not speak TLS/],
    [{ port: closedPort }, /nothing listens there.* \(ECONNREFUSED\)/],
  ] as const) {
    assert.match((await probeServer(server)).problems[0]?.message ?? '', message);
  }
  const record = createRecord({ url: `http://localhost:${selfSignedServer.port}/` });
  assert.deepEqual(getCodes(await probeRecord(record)), ['probe/silent']);
});

test('A probe of a silent, closed or slow server ends after the timeout', async () => {
  const slowServer = await startTlsServer(sendHeaderSlowly);
  const closingPort = await listen(createServer((socket) => socket.destroy()));
  for (const [url, ca, timeoutMs, hasCertificate] of [
    [`http://127.0.0.1:${await listen(createServer())}/`, undefined, 300, false],
    [`http://127.0.0.1:${closingPort}/`, undefined, 300, false],
    [`http://127.0.0.1:${await listen(createServer(sendHeaderSlowly))}/`, undefined, 300, false],
    [`https://localhost:${await listen(createServer())}/`, undefined, 300, false],
    [`https://localhost:${slowServer.port}/`, slowServer.ca, 2000, true],
  ] as const) {
    const observation = await probeRecord(createRecord({ url }), { ca, timeoutMs });
    const { isReachable, certificate, answer } = observation;
    assert.deepEqual(getCodes(observation), ['probe/silent'], url);
    assert.deepEqual([isReachable, answer], [true, undefined]);
    assert.equal(certificate !== undefined, hasCertificate, url);
  }
});

test('Answers of 500 and more are problems, and redirects are not followed', async () => {
  let requestCount = 0;
  const target = createHttpServer((_, response) => response.end(`${(requestCount += 1)}`));
  const targetPort = await listen(target);
  const answers: Record<string, [number, string?]> = {
    '/broken': [503],
    '/get-only': [501],
    '/moved?x': [302, `http://127.0.0.1:${targetPort}/`],
    '/secret': [302, 'https://u:hunter2@a.example/?token=hunter2'],
  };
  const server = createHttpServer((request, response) => {
    const [status, location] = answers[request.url ?? ''] ?? [404];
    response.writeHead(status, location === undefined ? {} : { location }).end();
  });
  const port = await listen(server);
  for (const [path, status, redirectsTo, problems] of [
    ['/broken', 503, null, ['probe/http-error']],
    ['/none', 404, null, []],
    ['/get-only', 501, null, []],
    ['/moved?x', 302, `http://127.0.0.1:${targetPort}/`, []],
    ['/secret', 302, 'https://***@a.example/?token=***', []],
  ] as const) {
    const observation = await probeRecord(createRecord({ url: `http://127.0.0.1:${port}${path}` }));
    assert.deepEqual(observation.answer, { status, redirectsTo }, path);
    assert.deepEqual(getCodes(observation), problems, path);
  }
  assert.equal(requestCount, 0);
});

test('Addresses are compared with the declared exposure', async () => {
  const [loopbackAddress, networkAddress, internetAddress] = [
    '127.0.0.1',
    '192.168.1.7',
    '2a02:2f0::7',
  ];
  for (const [exposure, addresses, problem] of [
    ['public', [networkAddress, internetAddress], null],
    ['public', [loopbackAddress, networkAddress], 'has no internet address'],
    ['private', [networkAddress, loopbackAddress], null],
    ['private', [networkAddress, internetAddress], 'answers at an internet address'],
    ['vpn', [internetAddress], 'answers at an internet address'],
    ['local', [loopbackAddress], null],
    ['local', [networkAddress], 'answers at a network address'],
    ['local', [internetAddress], 'answers at an internet address'],
    ['unknown', [internetAddress], null],
  ] as const) {
    const message = `it is declared ${exposure}, but ${problem}: ${addresses.join(', ')}`;
    const expected = problem === null ? [] : [{ code: 'probe/exposure', message }];
    assert.deepEqual(findExposureProblems({ exposure }, addresses), expected);
  }
  const record = createRecord({ host: loopbackAddress, port: await listen(createServer()) });
  const observation = await probeRecord({ ...record, exposure: 'public' });
  assert.deepEqual(getCodes(observation), ['probe/exposure']);
});

test('Concurrent probes are limited, and results are yielded as they finish', async () => {
  let activeRequests = 0;
  let maxActiveRequests = 0;
  const busyServer = createHttpServer((_, response) => {
    activeRequests += 1;
    maxActiveRequests = Math.max(maxActiveRequests, activeRequests);
    setTimeout(() => {
      activeRequests -= 1;
      response.end();
    }, 30);
  });
  const port = await listen(busyServer);
  const url = `http://127.0.0.1:${port}/`;
  const records = Array.from({ length: 12 }, (_, index) => createRecord({ id: `r${index}`, url }));
  const probes = probeAll(records, { concurrency: 3, perSecond: 1000 });
  const ids = await Array.fromAsync(probes, ({ id }) => id);
  assert.equal(new Set(ids).size, 12);
  assert.ok(maxActiveRequests > 1 && maxActiveRequests <= 3, `${maxActiveRequests} at once`);

  const silentUrl = `http://127.0.0.1:${await listen(createServer())}/`;
  const silentRecord = createRecord({ id: 'silent', url: silentUrl });
  const busyRecord = createRecord({ id: 'busy', url });
  const options = { perSecond: 1000, timeoutMs: 60_000 };
  const observations = probeAll([silentRecord, busyRecord], options);
  assert.equal((await observations.next()).value?.id, 'busy');
  await observations.return();
});

test('Probes follow the rate, stop with their signal, and start only when consumed', async () => {
  let connectionCount = 0;
  const reason = new Error('enough');
  const stopController = new AbortController();
  const server = createServer(() => {
    connectionCount += 1;
    stopController.abort(reason);
  });
  const url = `http://127.0.0.1:${await listen(server)}/`;
  const records = Array.from({ length: 5 }, (_, index) => createRecord({ id: `r${index}`, url }));
  const options = { concurrency: 1, perSecond: 1000, signal: stopController.signal };
  await assert.rejects(Array.fromAsync(probeAll(records, options)), reason);
  assert.equal(connectionCount, 1);

  const idleController = new AbortController();
  const twoRecords = [createRecord({ id: 'r1' }), createRecord({ id: 'r2' })];
  const slowProbes = probeAll(twoRecords, { perSecond: 0.01, signal: idleController.signal });
  assert.equal((await slowProbes.next()).value?.id, 'r1');
  const secondResult = slowProbes.next();
  idleController.abort(reason);
  await assert.rejects(secondResult, reason);

  let recordCount = 0;
  function* generateRecords() {
    for (;;) yield createRecord({ id: `r${(recordCount += 1)}` });
  }
  const probes = probeAll(generateRecords(), { concurrency: 2, perSecond: 1000 });
  for (const id of ['r1', 'r2', 'r3']) assert.equal((await probes.next()).value?.id, id);
  await probes.return();
  assert.ok(recordCount <= 5, `${recordCount} records read`);
  for (const invalidOptions of [
    { concurrency: 65 },
    { concurrency: 0 },
    { perSecond: 1001 },
    { perSecond: NaN },
  ]) {
    await assert.rejects(probeAll([], invalidOptions).next(), RangeError);
  }
});

test('The command prints each endpoint, selects records, and trusts --ca', async () => {
  const { port, ca } = await startHttpsServer();
  const closingPort = await listen(createServer((socket) => socket.destroy()));
  const certificateFile = join(await openFolder(), 'ca.pem');
  await writeFile(certificateFile, ca);
  const records = [
    createRecord({ id: 'good', url: `https://localhost:${port}/` }),
    createRecord({ id: 'closing', url: `https://localhost:${closingPort}/` }),
    createRecord({ id: 'nowhere', exposure: 'private' }),
  ];
  const runProbe = async (...args: string[]) => {
    const stdin = Readable.from([Buffer.from(JSON.stringify(records))]);
    return run(['probe', '--concurrency', '1', ...args, '-'], { stdin });
  };
  const trustedRun = await runProbe('--ca', certificateFile);
  assert.deepEqual([trustedRun.status, trustedRun.stderr], [1, '']);
  assert.match(
    trustedRun.stdout,
    /^ok +"good" localhost:\d+: certificate to \d{4}-\d\d-\d\d; HTTP 200\nproblem "closing" localhost:\d+: .+ \[probe\/silent\]\nskipped "nowhere": the record names no host and port\n3 endpoints, 1 with problems, 1 not probed\n$/,
  );
  assert.match((await runProbe()).stdout, /^problem "good" .+ \[probe\/certificate-untrusted\]/);
  const selectedRun = await runProbe('--format', 'json', '--exposure', 'private');
  const [observation, ...otherObservations] = JSON.parse(selectedRun.stdout);
  assert.partialDeepStrictEqual(observation, { id: 'nowhere', isReachable: null });
  assert.deepEqual(otherObservations, []);
  const emptyRun = await runProbe('--type', 'metrics');
  assert.equal(emptyRun.stdout, '0 endpoints, 0 with problems\n');

  const path = new URL('../../../docs/inventory/output.md', import.meta.url);
  const page = await readFile(path, 'utf8');
  const [, section = '', codeList = ''] =
    /\n## Observations of probe\n([^]*?)\n## Codes of observations\n([^]*)/.exec(page) ?? [];
  const [, documentedOutput = ''] = /^```json\n([^]*?)^```$/m.exec(section) ?? [];
  const endpoint = createRecord({ exposure: 'public', url: `https://localhost:${port}/` });
  const stdin = Readable.from([Buffer.from(JSON.stringify([endpoint]))]);
  const actual = JSON.parse((await run(['probe', '--format', 'json', '-'], { stdin })).stdout);
  const names = Array.from(section.matchAll(/^\| `([^`]+)`/gm), ([, name = '']) => name);
  assert.deepEqual(listFieldPaths(JSON.parse(documentedOutput)), listFieldPaths(actual));
  assert.deepEqual(names.toSorted(), listFieldPaths(actual).toSorted());
  const documentedCodes = Array.from(codeList.matchAll(/^\| `([^`]+)`/gm), ([, code = '']) => code);
  assert.deepEqual(documentedCodes, [...PROBE_CODES]);
});
