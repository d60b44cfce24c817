import { reachOf } from '../lint/address.ts';
import type { EndpointRecord } from '../record.ts';
import type { ProbeProblem } from './probe.ts';

/** What the addresses of an endpoint that answered say against its declared exposure. Contract 5, probe. */
export function exposureProblems(
  { exposure }: Pick<EndpointRecord, 'exposure'>,
  addresses: readonly string[],
): ProbeProblem[] {
  const reaches = new Set(addresses.map(reachOf));
  const isGlobal = reaches.has('global');
  const list = addresses.join(', ');
  if (exposure === 'public' && !isGlobal) {
    const message = `it is declared public, but has no address of the internet: ${list}`;
    return [{ code: 'probe/exposure', message }];
  }
  if ((exposure === 'local' || exposure === 'private' || exposure === 'vpn') && isGlobal) {
    const message = `it is declared ${exposure}, but answers at an address of the internet: ${list}`;
    return [{ code: 'probe/exposure', message }];
  }
  if (exposure === 'local' && reaches.has('private')) {
    const message = `it is declared local, but answers at an address of the network: ${list}`;
    return [{ code: 'probe/exposure', message }];
  }
  return [];
}
