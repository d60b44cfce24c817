import { join } from 'node:path';
import fastifyStatic from '@fastify/static';
import { createDevIdp, type DevIdp, type WebhookTarget } from '@oselya/dev-idp';
import { listen, StartError } from '@oselya/kit';
import { SAMPLE_IMAGES } from './samples.ts';

/**
 * Starts the development identity provider, which also serves the pictures of the sample listings
 * (docs/adr/0005-composition.md).
 * @throws StartError where its port is taken, or its store or client cannot be used.
 */
export async function startIdentityProvider(options: {
  host: string;
  port: number;
  client: { id: string; secret: string; redirectUris: string[] };
  dataDir: string;
  webhook: WebhookTarget;
  accessTokenSeconds: number;
  refreshTokenSeconds: number;
}): Promise<DevIdp> {
  const { host, port, dataDir, ...provider } = options;
  const idp = await createDevIdp({
    issuer: `http://${host}:${port}`,
    ...provider,
    storeFile: join(dataDir, 'identity-provider.sqlite'),
  }).catch((cause: Error) => {
    throw new StartError(cause.message, { cause });
  });
  try {
    await idp.app.register(fastifyStatic, { root: SAMPLE_IMAGES, prefix: '/samples/images/' });
    await listen(idp.app, { host, port, variable: 'DEV_IDP_PORT' });
    return idp;
  } catch (error) {
    await idp.close();
    throw error;
  }
}
