import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUrlCheck, FetchError } from '../../src/safe-fetch/check-url.ts';

const failLookup = () => Promise.reject(new Error('a literal address must not be looked up'));
const checkPublicUrl = createUrlCheck({ allow: [], lookup: failLookup });

/** Rejected hosts by kind; those in square brackets are IPv6. */
const rejectedHosts = {
  loopback: '127.0.0.1 127.255.255.254 127.1 [::1] [0:0:0:0:0:0:0:1]',
  'loopback in other notations': '2130706433 0177.0.0.1 0x7f.1 0x7F000001 017700000001',
  unspecified: '0.0.0.0 0 0.1.2.3 [::]',
  private: '10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 3232235777',
  'link local and cloud metadata': '169.254.169.254 0xa9fea9fe [fe80::1] [febf::1]',
  'shared and reserved': '100.64.0.1 192.0.0.1 198.18.0.1 240.0.0.1 192.88.99.1',
  documentation: '192.0.2.1 198.51.100.1 203.0.113.1 [2001:db8::1] [3fff::1]',
  'multicast and broadcast': '224.0.0.1 239.255.255.255 255.255.255.255 [ff02::1]',
  'unique and site local': '[fc00::1] [fd12:3456::1] [fec0::1]',
  'mapped IPv4': '[::ffff:127.0.0.1] [::ffff:7f00:1] [::ffff:10.0.0.1] [::ffff:a9fe:a9fe]',
  'compatible IPv4': '[::127.0.0.1] [::8.8.8.8]',
  'translated IPv4': '[::ffff:0:127.0.0.1] [::ffff:0:8.8.8.8]',
  NAT64: '[64:ff9b::127.0.0.1] [64:ff9b::a9fe:a9fe] [64:ff9b:1::8.8.8.8]',
  '6to4': '[2002:7f00:1::] [2002:a00:1::1] [2002:c0a8:101::1]',
  // The first address contains the client 127.0.0.1, and the second contains the server 10.0.0.1.
  Teredo: '[2001:0:808:808::80ff:fffe] [2001:0:a00:1::f7f7:f7f7]',
  ISATAP: '[2606:4700::5efe:127.0.0.1] [2606:4700::200:5efe:10.0.0.1]',
  'other special IPv6': '[100::1] [2001:2::1] [2001:10::1] [5f00::1] [4000::1] [1::1]',
};

test('Addresses that are not global are rejected', async () => {
  for (const [kind, hosts] of Object.entries(rejectedHosts)) {
    for (const host of hosts.split(' ')) {
      const url = new URL(`https://${host}:8080/a.jpg`);
      await assert.rejects(checkPublicUrl(url), FetchError, `${kind}: ${host}`);
    }
  }
});

const allowedHosts: [host: string, address: string, family: number][] = [
  ['8.8.8.8', '8.8.8.8', 4],
  ['134744072', '8.8.8.8', 4],
  ['172.15.255.255', '172.15.255.255', 4],
  ['172.32.0.1', '172.32.0.1', 4],
  ['100.128.0.1', '100.128.0.1', 4],
  ['[2606:4700::1111]', '2606:4700::1111', 6],
  ['[::ffff:8.8.8.8]', '::ffff:808:808', 6],
  ['[64:ff9b::8.8.8.8]', '64:ff9b::808:808', 6],
  ['[2002:808:808::1]', '2002:808:808::1', 6],
];

test('Public addresses are allowed', async () => {
  for (const [host, address, family] of allowedHosts) {
    assert.deepEqual(await checkPublicUrl(new URL(`http://${host}/`)), [{ address, family }], host);
  }
});

test('Other schemes and credentials are rejected', async () => {
  for (const url of [
    'ftp://8.8.8.8/',
    'file:///etc/passwd',
    'data:image/png;base64,AA',
    'http://user@8.8.8.8/',
    'http://:pw@8.8.8.8/',
  ]) {
    await assert.rejects(checkPublicUrl(new URL(url)), FetchError, url);
  }
});

const createLookup =
  (...addresses: string[]) =>
  async () =>
    addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));

test('A name with one forbidden address is rejected', async () => {
  const url = new URL('http://images.example/a.jpg');
  const cases: [string[], boolean][] = [
    [['8.8.8.8', '2606:4700::1111'], true],
    [['8.8.8.8', '127.0.0.1'], false],
    [['::ffff:10.0.0.1'], false],
    [['fe80::1%eth0'], false],
    [[], false],
  ];
  for (const [addresses, isAllowed] of cases) {
    const checkUrl = createUrlCheck({ allow: [], lookup: createLookup(...addresses) });
    if (isAllowed) assert.equal((await checkUrl(url)).length, addresses.length);
    else await assert.rejects(checkUrl(url), FetchError, addresses.join());
  }
});

test('A host that is not found may be retried', async () => {
  for (const code of ['ENOTFOUND', 'EAI_AGAIN']) {
    const lookup = () => Promise.reject(Object.assign(new Error(code), { code }));
    const checkUrl = createUrlCheck({ allow: [], lookup });
    const expected = { name: 'FetchError', retryable: true };
    await assert.rejects(checkUrl(new URL('http://nowhere.test/')), expected, code);
  }
});

test('SSRF_ALLOW allows ranges, addresses and hosts, and nothing beside them', async () => {
  const allow = ['127.0.0.0/31', '10.1.2.3', 'fd00::/8', '::1', 'Media.Internal'];
  const checkUrl = createUrlCheck({ allow, lookup: createLookup('192.168.0.9') });
  const allowedHostList =
    '127.0.0.1 [::ffff:127.0.0.1] 10.1.2.3 [fd00::5] [::1] media.internal 8.8.8.8';
  for (const host of allowedHostList.split(' ')) await checkUrl(new URL(`http://${host}/`));
  const rejectedHostList =
    '127.0.0.2 10.1.2.4 [fc00::1] [::2] sub.media.internal media.internal.test';
  for (const host of rejectedHostList.split(' ')) {
    await assert.rejects(checkUrl(new URL(`http://${host}/`)), FetchError, host);
  }
});
