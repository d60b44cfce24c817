import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import { startCollector } from '../support/collector.ts';
import { temporaryFiles } from '../support/form.ts';
import { payloadOf } from '../support/payload.ts';
import { openDescriptors } from '../support/raw-http.ts';
import { until } from '../support/until.ts';
import { openImages } from './harness.ts';
import { picture } from './pictures.ts';
import { startServer } from './server.ts';

const KB = 1024;
const database = await openImages();
const { db, addListing, open, rowsOf, files } = database;
const bytes = await picture('png', { colour: 'orchid' });

/** Writes for as long as anybody reads. */
function writeEndlessly(response: ServerResponse): void {
  const chunk = Buffer.alloc(64 * KB);
  const more = () => {
    while (!response.destroyed && response.write(chunk));
  };
  response.on('drain', more);
  more();
}

/** A byte now and then, so that no wait between two bytes is long. */
function drip(response: ServerResponse): void {
  const timer = setInterval(() => response.write('x'), 20);
  response.on('close', () => clearInterval(timer));
}

/** What each host does, and the reason that is recorded. */
type Fault = [string, (response: ServerResponse) => void, RegExp];
const faults: Fault[] = [
  ['never ends', writeEndlessly, /larger than [\d.]+ MB/],
  [
    'announces more than it sends',
    (response) => {
      response.writeHead(200, { 'content-length': bytes.length + 100 });
      response.write(bytes, () => response.socket?.end());
    },
    /could not be fetched/,
  ],
  [
    'announces less than it sends',
    (response) => {
      response.socket?.end(
        Buffer.concat([
          Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${bytes.length - 40}\r\n\r\n`),
          bytes,
        ]),
      );
    },
    /broken|could not be fetched/,
  ],
  [
    'announces too much',
    (response) => {
      response.writeHead(200, { 'content-length': 10 ** 12 });
      response.write(bytes);
    },
    /larger than/,
  ],
  [
    'closes midway',
    (response) => {
      response.write(bytes.subarray(0, 30), () => response.destroy());
    },
    /could not be fetched/,
  ],
  [
    'sends half a compressed body',
    (response) => {
      response.writeHead(200, { 'content-encoding': 'deflate' });
      const whole = deflateSync(bytes);
      response.end(whole.subarray(0, whole.length / 2));
    },
    /could not be fetched/,
  ],
  [
    'leads to a private address',
    (response) => {
      response.writeHead(302, { location: 'http://10.0.0.1/picture.png' }).end();
    },
    /private or reserved/,
  ],
  [
    'leads to an address of a cloud',
    (response) => {
      response.writeHead(301, { location: 'http://[::ffff:169.254.169.254]/latest' }).end();
    },
    /private or reserved/,
  ],
  [
    'leads to a file',
    (response) => {
      response.writeHead(307, { location: 'file:///etc/passwd' }).end();
    },
    /must be http or https/,
  ],
  ['sends an error', (response) => response.writeHead(500).end('{}'), /status 500/],
];

/** Little on the way, and so many bytes when it is unpacked. */
const bombsOf = (unpacked: number): Fault[] =>
  [['gzip', gzipSync] as const, ['br', brotliQuickly] as const].map(([encoding, compress]) => {
    const bomb = compress(Buffer.alloc(unpacked));
    return [
      `sends a bomb in ${encoding}`,
      (response) => response.writeHead(200, { 'content-encoding': encoding }).end(bomb),
      /larger than [\d.]+ MB/,
    ];
  });

/** As fast as it can: nothing but zeros is small anyway. */
function brotliQuickly(content: Buffer): Buffer {
  return brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } });
}

/** These cost the time that one picture may take. */
const slowFaults: Fault[] = [
  ['drips', drip, /longer than 2 s to fetch/],
  ['says nothing', () => undefined, /longer than 2 s to fetch/],
];

/** A host with a path for each fault, by its number; everything else there is a good picture. */
const serveFaults = (list: readonly Fault[]) =>
  startServer((request, response) => {
    const fault = list[Number(request.url?.slice(1))];
    if (fault === undefined) response.end(bytes);
    else fault[1](response);
  });

/** Sooner than a server would hang up on a connection that nobody uses, or a client on a silent one. */
const AT_ONCE_MS = 3000;

type Host = Awaited<ReturnType<typeof serveFaults>>;

/** What this process has open, beside connections to the database: the pool has as many as it needed at once. */
async function countOpen(): Promise<number> {
  const pooled = database.url === undefined ? 0 : database.pool.totalCount;
  return (await openDescriptors()) - pooled;
}

/** Waits until nothing is open that was not before. */
async function untilClosed(host: Host, descriptors: number): Promise<void> {
  const isAlone = async () => (await host.connections()) === 0;
  await until('no connection to the host', isAlone, AT_ONCE_MS);
  await until('closed descriptors', async () => (await countOpen()) <= descriptors);
}

test(
  'whatever a host does wrong is recorded, and nothing of it stays',
  { timeout: 180_000 },
  async () => {
    const all = [...faults, ...bombsOf(20_000 * KB), ...slowFaults];
    const host = await serveFaults(all);
    const limits = { bytes: 150 * KB, retryDelayMs: 1, totalMs: 2000 };
    const { images, warnings } = open({ limits });
    const listing = await addListing();
    // What is opened once and stays, such as connections of the database, is open after this.
    await images.processRemote({ ...listing, urls: [`${host.url}/good`] });
    const descriptors = await countOpen();
    const kept = await files();

    const urls = [...all.map((_, index) => `${host.url}/${index}`), `${host.url}/good`];
    await images.processRemote({ ...listing, urls });
    const rows = await rowsOf(listing.listingId);
    for (const [index, [name, , reason]] of all.entries()) {
      assert.match(rows[index]?.error ?? '', reason, name);
    }
    assert.equal(rows.at(-1)?.error, null, 'a good picture is not touched by bad ones');
    assert.deepEqual(await files(), kept, 'a temporary file stayed');
    assert.deepEqual(warnings, []);
    await untilClosed(host, descriptors);
  },
);

/** Waits until payloads are processed, and gives what became of them, in their order. */
const ended = (rawIds: readonly number[]) =>
  until('the payloads to be processed', async () => {
    const rows = await db
      .selectFrom('raw_data')
      .select(['id', 'status', 'listing_id'])
      .where('id', 'in', rawIds)
      .where('status', 'not in', ['pending', 'processing'])
      .orderBy('id')
      .execute();
    return rows.length === rawIds.length && rows;
  });

test(
  'a running collector completes every listing, whatever the hosts of its pictures do',
  { timeout: 180_000 },
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'oselya-hosts-'));
    after(() => rm(folder, { recursive: true, force: true }));
    const collector = await startCollector(database, {
      DATA_DIR: folder,
      SSRF_ALLOW: '127.0.0.1',
      COLLECTOR_INGEST_PER_MINUTE: '0',
    });
    // The bounds are those of production here: what has no end is cut at 50 MB.
    const lies = [...faults, ...bombsOf(51 * KB * KB)];
    const host = await serveFaults(lies);
    const send = async (path: string) => {
      const payload = payloadOf({ image_urls: [`${host.url}/${path}`, `${host.url}/good`] });
      const answer = await collector.post('/api/v1/ingest', payload);
      assert.equal(answer.status, 202, answer.text);
      return answer.json<{ raw_id: number }>().raw_id;
    };
    // What is opened once and stays is open after this.
    await ended(await Promise.all([1, 2, 3, 4].map(() => send('good'))));
    const descriptors = await countOpen();

    const rawIds: number[] = [];
    for (const index of lies.keys()) rawIds.push(await send(String(index)));
    const rows = await ended(rawIds);
    assert.deepEqual(
      rows.map(({ status }) => status),
      Array(lies.length).fill('completed'),
    );
    for (const [index, [name, , reason]] of lies.entries()) {
      const [liar, good] = await rowsOf(rows[index]?.listing_id ?? 0);
      assert.match(liar?.error ?? '', reason, name);
      assert.deepEqual([liar?.sha256, good?.error], [null, null], name);
    }
    const [endless] = await rowsOf(rows[0]?.listing_id ?? 0);
    assert.equal(endless?.error, 'It is larger than 50 MB');
    assert.equal(new Set(rows.map(({ listing_id: id }) => id)).size, lies.length);
    assert.deepEqual(await temporaryFiles(folder), []);
    await untilClosed(host, descriptors);
    const { text } = await collector.get('/metrics');
    const failed = `collector_images_total{outcome="failed"} ${lies.length}\n`;
    assert.ok(text.includes(failed), text.match(/collector_images_total.*/g)?.join());
  },
);
