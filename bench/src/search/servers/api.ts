import { start } from '@oselya/collector';
import { serveMethods } from '../../process/child.ts';
import { cpuMs } from '../../process/server.ts';

const methods = {
  /** Starts the API without a worker, as in an installation with separate workers. Returns the URL. */
  async start(env: Record<string, string>): Promise<string> {
    const { url } = await start({ ...env, COLLECTOR_PORT: '0', COLLECTOR_WORKER: 'false' });
    return url;
  },
  cpuMs,
};
export type ApiServer = typeof methods;
serveMethods(methods);
