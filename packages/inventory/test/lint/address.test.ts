import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { lintInventory } from '@oselya/inventory';
import { readDay } from '../../src/day.ts';
import { readAddress } from '../../src/lint/address.ts';
import { VALID_RECORD } from '../support/findings.ts';

const label = fc.stringMatching(/^[a-z0-9-]{1,4}$/);
const host = fc.oneof(
  fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join('.')),
  fc.constantFrom('0x7f.1', '1.2.3', 'a.0x1', 'xn--a', 'a..b', 'A.b', '[::1]', 'я.укр', 'user@a'),
);
const port = fc.oneof(
  fc.constantFrom('', ':', ':0', ':443', ':080'),
  fc.nat(99_999).map((nth) => `:${nth}`),
);
const tail = fc.constantFrom('', '/', '/a b', '?q=@x', '#f', '\\x', '/xn--', ' ');
const scheme = fc.constantFrom('http', 'https', 'ws', 'wss', 'HTTP', 'ftp', 'ssh');

test('addresses have the host and the port that the URL Standard gives them', () => {
  fc.assert(
    fc.property(scheme, host, port, tail, (...parts) => {
      const written = `${parts[0]}://${parts[1]}${parts[2]}${parts[3]}`;
      const [read, url] = [readAddress(written), URL.parse(written)];
      assert.equal(read === null, url === null, written);
      if (read === null || url === null) return;
      assert.deepEqual([read.protocol, read.hostname], [url.protocol, url.hostname], written);
      const usual: Record<string, string> = {
        'http:': '80',
        'https:': '443',
        'ws:': '80',
        'wss:': '443',
      };
      const shown = read.port === usual[read.protocol] ? '' : read.port;
      assert.equal(shown, url.port, written);
    }),
    { numRuns: 5_000 },
  );
});

test('names of hosts are not given to the parser of IP addresses, which throws for each', async (t) => {
  const parsers = [t.mock.method(ipaddr.IPv4, 'isValid'), t.mock.method(ipaddr.IPv6, 'isValid')];
  const named = { ...VALID_RECORD, exposure: 'local', owner_host: 'edge-1' };
  const record = { ...named, url: 'https://Gateway.example.org/', host: 'gateway.example.org' };
  assert.deepEqual(
    await Array.fromAsync(lintInventory(JSON.stringify([record]), { today: '2026-11-20' })),
    [],
  );
  assert.deepEqual(
    parsers.map(({ mock }) => mock.callCount()),
    [0, 0],
  );
});

test('days are those of the calendar', () => {
  const part = fc.nat(40).map((number) => String(number).padStart(2, '0'));
  const year = fc.constantFrom('0000', '0099', '0100', '1900', '2000', '2023', '2024', '9999');
  fc.assert(
    fc.property(year, part, part, (...parts) => {
      const text = parts.join('-');
      const moment = new Date(`${text}T00:00:00Z`);
      const isDay = !Number.isNaN(moment.valueOf()) && moment.toISOString().startsWith(text);
      assert.equal(readDay(text), isDay && parts[0] >= '0100' ? text : null);
    }),
    { numRuns: 2_000 },
  );
});
