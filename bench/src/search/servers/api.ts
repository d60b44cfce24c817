import { start } from '@oselya/collector';
import { answerParent } from '../../process/child.ts';
import { cpuMs } from '../../process/resources.ts';

const methods = {
  /** As `oselya collector` starts it beside workers of their own. Gives its address. */
  async start(env: Record<string, string>): Promise<string> {
    const { url } = await start({ ...env, COLLECTOR_PORT: '0', COLLECTOR_WORKER: 'false' });
    return url;
  },
  cpuMs,
};
export type ApiServer = typeof methods;
answerParent(methods);
