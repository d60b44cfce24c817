import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exposureProblems } from '../../src/probe/exposure.ts';

const LOOPBACK = '127.0.0.1';
const PRIVATE = '192.168.1.7';
const GLOBAL = '2a02:2f0::7';

const NO_INTERNET = 'it is declared public, but has no address of the internet: ';

for (const [exposure, addresses, message] of [
  ['public', [GLOBAL], null],
  ['public', [PRIVATE, GLOBAL], null],
  ['public', [PRIVATE], `${NO_INTERNET}${PRIVATE}`],
  ['public', [LOOPBACK, PRIVATE], `${NO_INTERNET}${LOOPBACK}, ${PRIVATE}`],
  ['private', [PRIVATE], null],
  ['private', [LOOPBACK], null],
  [
    'private',
    [PRIVATE, GLOBAL],
    `it is declared private, but answers at an address of the internet: ${PRIVATE}, ${GLOBAL}`,
  ],
  ['vpn', [PRIVATE], null],
  ['vpn', [GLOBAL], `it is declared vpn, but answers at an address of the internet: ${GLOBAL}`],
  ['local', [LOOPBACK], null],
  [
    'local',
    [LOOPBACK, PRIVATE],
    `it is declared local, but answers at an address of the network: ${LOOPBACK}, ${PRIVATE}`,
  ],
  ['local', [GLOBAL], `it is declared local, but answers at an address of the internet: ${GLOBAL}`],
  ['unknown', [GLOBAL], null],
] as const) {
  test(`${exposure} at ${addresses.join(' and ')}`, () => {
    const expected = message === null ? [] : [{ code: 'probe/exposure', message }];
    assert.deepEqual(exposureProblems({ exposure }, addresses), expected);
  });
}
