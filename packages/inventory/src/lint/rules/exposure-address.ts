import { addressOf, type Reach, reachOf } from '../address.ts';
import { type Fields, simpleRule } from '../rule.ts';

/** Finds endpoints that are declared public at an address nobody else reaches, and the other way round. */
export const exposureAddress = simpleRule('lint/exposure-address', 'warning', (fields) => {
  const { exposure } = fields;
  const place = placeOf(fields);
  if (exposure === undefined || place === null) return [];
  const { key, host, reach } = place;
  if (exposure === 'public' && reach !== 'global' && fields.domain === undefined) {
    const who = reach === 'loopback' ? 'its own machine alone' : 'its own network alone';
    return [{ key, message: `the endpoint is public, but ${host} is reached from ${who}` }];
  }
  if (exposure === 'local' && reach === 'global') {
    return [{ key, message: `the endpoint is local, but ${host} is an address of the internet` }];
  }
  return [];
});

type Place = { key: string; host: string; reach: Reach };

/** The address that says most: of the URL, else the host. */
function placeOf(fields: Fields): Place | null {
  const hosts: [string, string | undefined][] = [
    ['url', addressOf(fields)?.hostname],
    ['host', fields.host],
  ];
  for (const [key, host = ''] of hosts) {
    const reach = reachOf(host);
    if (reach !== null) return { key, host, reach };
  }
  return null;
}
