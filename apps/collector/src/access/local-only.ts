import { isCrossSiteChange, isLoopback, type Server } from '@oselya/kit';
import { problem } from '../errors.ts';

/**
 * Protects a collector without API keys from the pages that somebody on its machine looks at. A browser
 * lets any page send requests to any address: those that change something are refused when the page is
 * of another origin.
 * @param options.onlyThisMachine Whether requests for other names than this machine's are refused: a
 * website can let its own name resolve to a loopback address, and its pages are then of one origin with
 * the collector.
 */
export function refuseOtherPages(
  app: Pick<Server, 'addHook'>,
  { onlyThisMachine }: { onlyThisMachine: boolean },
): void {
  app.addHook('onRequest', (request, _reply, done) => {
    if (isCrossSiteChange(request)) return done(problem('cross_site_request'));
    const name = request.hostname.replaceAll(/[[\]]/g, '');
    done(onlyThisMachine && !isLoopback(name) ? problem('unknown_host') : undefined);
  });
}
