import { shorten } from '../../shorten.ts';
import { mayBePublic, readAddress, type Reach, reachOf } from '../address.ts';
import { type Fields, simpleRule } from '../rule.ts';

/** Finds endpoints that are declared public at an address nobody else reaches, and the other way round. */
export const exposureAddress = simpleRule('lint/exposure-address', 'warning', (fields) => {
  const { exposure } = fields;
  if (exposure !== 'public' && exposure !== 'local') return [];
  const places = placesOf(fields);
  // The one that says most stands first.
  const known = places.find(({ reach }) => reach !== null);
  if (known === undefined) return [];
  const { key, reach } = known;
  const host = shorten(known.host);
  if (exposure === 'public' && !places.some((place) => mayBePublic(place.host))) {
    const who = reach === 'loopback' ? 'its own machine alone' : 'its own network alone';
    const message = `the endpoint is public, but ${host} is reached from ${who}; correct the wrong one, or say its public name in domain`;
    return [{ key, message }];
  }
  if (exposure === 'local' && reach === 'global') {
    const message = `the endpoint is local, but ${host} is an address of the internet; correct the wrong one`;
    return [{ key, message }];
  }
  return [];
});

type Place = { key: string; host: string; reach: Reach | null };

/** Under what the endpoint is reached, as far as the record says: the host of its URL, its host, its domain. */
function placesOf(fields: Fields): Place[] {
  const hosts: [string, string | undefined][] = [
    ['url', readAddress(fields.url ?? '')?.host],
    ['host', fields.host],
    ['domain', fields.domain],
  ];
  return hosts
    .filter((entry): entry is [string, string] => entry[1] !== undefined)
    .map(([key, host]) => ({ key, host, reach: reachOf(host) }));
}
