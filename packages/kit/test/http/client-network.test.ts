import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { clientNetwork } from '../../src/index.ts';

for (const [address, network] of [
  ['192.0.2.1', '192.0.2.1'],
  ['127.0.0.1', '127.0.0.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['::ffff:c000:201', '192.0.2.1'],
  ['0:0:0:0:0:FFFF:192.0.2.1', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:DB8:1:2::', '2001:db8:1:2::/64'],
  ['2001:db8:1:3::1', '2001:db8:1:3::/64'],
  ['2001:db8::1', '2001:db8::/64'],
  ['::1', '::/64'],
  ['fe80::1%eth0', 'fe80::/64'],
  ['unknown', 'unknown'],
  ['192.0.2.1:5678', '192.0.2.1:5678'],
  ['', ''],
] as const) {
  test(`${JSON.stringify(address)} is of ${JSON.stringify(network)}`, () => {
    assert.equal(clientNetwork(address), network);
  });
}

const write = (...halves: number[][]) =>
  halves
    .flat()
    .map((part) => part.toString(16))
    .join(':');

test('the first half of an IPv6 address tells clients apart, and the second does not', () => {
  const half = fc.array(fc.integer({ min: 1, max: 0xff_ff }), { minLength: 4, maxLength: 4 });
  fc.assert(
    fc.property(half, half, half, half, (one, other, host, otherHost) => {
      const network = clientNetwork(write(one, host));
      assert.equal(clientNetwork(write(one, otherHost)), network);
      const isSame = write(one) === write(other);
      assert.equal(clientNetwork(write(other, host)) === network, isSame);
    }),
  );
});

test('any text is a key', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      assert.equal(typeof clientNetwork(text), 'string');
    }),
  );
});
