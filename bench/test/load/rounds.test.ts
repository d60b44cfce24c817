import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { measureRounds, orderForRound, listRates } from '../../src/load/rounds.ts';
import type { Load, Outcome } from '../../src/load/generator.ts';
import { checkAnswers, type Running } from '../../src/load/variant.ts';

const options = { rounds: 3, seconds: 2, connections: 1, isSmokeRun: false, out: undefined };

const server = createServer((request, response) => {
  response.statusCode = request.url === '/out' ? 401 : 200;
  response.end(`you are ${request.headers.cookie}`);
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
after(() => server.close());

/** Creates a server whose counters grow with every read. */
function createRunning(url: string): Running {
  let cpuMs = 0;
  return {
    url,
    targets: () => Promise.resolve([]),
    counters: () => Promise.resolve({ cpuMs: (cpuMs += 5), calls: 2 * cpuMs }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** Creates a load generator that sends nothing: it records the requested loads and returns invented outcomes. */
function createGenerator(outcome: Partial<Outcome> = {}) {
  const loads: Load[] = [];
  const runLoad = (load: Load): Promise<Outcome> => {
    loads.push(load);
    return Promise.resolve({
      requests: 100 * loads.length,
      seconds: 2,
      latency: { p50: 1, p90: 2, p99: 3, max: 4 },
      statuses: { '200': 100 },
      errors: 0,
      wrongBodies: 0,
      ...outcome,
    });
  };
  return { loads, runLoad };
}

async function measure({ runLoad }: ReturnType<typeof createGenerator>) {
  const savedSamples: unknown[] = [];
  const results = {
    file: '',
    keep: (_kind: string, sample: unknown) => Promise.resolve(void savedSamples.push(sample)),
    writeTable: () => Promise.resolve(),
  };
  const variants = new Map(['a', 'b', 'c'].map((name) => [name, createRunning(name)]));
  const measurement = await measureRounds(
    { variants, runLoad, expected: '@' },
    { options, results, logProgress: () => undefined },
  );
  return { ...measurement, savedSamples };
}

test('the order reverses from round to round', () => {
  const items = ['a', 'b', 'c'];
  assert.deepEqual(
    [1, 2, 3].map((round) => orderForRound(round, items).join('')),
    ['abc', 'cba', 'abc'],
  );
  assert.deepEqual(items, ['a', 'b', 'c']);
});

test('every variant is warmed up and measured in every round, and every sample is saved', async () => {
  const generator = createGenerator();
  const { samples, failures, savedSamples } = await measure(generator);
  const measuredLoads = generator.loads.filter((_load, index) => index % 2 === 1);
  assert.equal(measuredLoads.map(({ url }) => url).join(''), 'abccbaabc');
  assert.deepEqual([...new Set(measuredLoads.map(({ seconds }) => seconds))], [2]);
  const warmUpLoads = generator.loads.filter((_load, index) => index % 2 === 0);
  assert.deepEqual([...new Set(warmUpLoads.map(({ seconds }) => seconds))], [0.8]);
  assert.deepEqual(failures, []);
  assert.deepEqual(
    samples.get('b')?.map(({ round }) => round),
    [1, 2, 3],
  );
  assert.deepEqual(listRates(samples, 'a'), [100, 600, 700]);
  assert.equal(savedSamples.length, 9);
});

test('a sample has the resource usage of its measurement only', async () => {
  const { samples } = await measure(createGenerator());
  const usages = [...samples.values()].flat().map(({ cpuMs, calls }) => ({ cpuMs, calls }));
  assert.deepEqual(
    usages,
    Array.from({ length: 9 }, () => ({ cpuMs: 5, calls: 10 })),
  );
});

test('wrong responses are failures of their variant', async () => {
  const statuses = { '200': 5, '503': 2 };
  const { failures } = await measure(createGenerator({ statuses, errors: 1, wrongBodies: 4 }));
  assert.equal(failures.length, 27);
  assert.deepEqual(failures.slice(0, 3), [
    'a: 2 responses had the status 503',
    'a: 1 requests failed or timed out',
    'a: 4 responses lacked the expected text',
  ]);
});

test('a response is correct if its status is 200 and it is about the requesting user', async () => {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const check = (path: string, cookie: string) =>
    checkAnswers({ url }, [{ path, headers: { cookie }, expected: 'olena' }]);
  assert.deepEqual(await check('/me', 'olena'), []);
  assert.deepEqual(await check('/me', 'taras'), ['/me responded with another user']);
  assert.deepEqual(await check('/out', 'olena'), ['/out responded with status 401']);
});
