import formBody from '@fastify/formbody';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { errors, type InteractionResults, type Provider } from 'oidc-provider';
import type { Accounts } from './accounts.ts';
import { sendToFastify } from './pages/layout.ts';
import { lostInteractionPage, pickerPage, unavailableAccountPage } from './pages/sign-in.ts';
import { interactionPath } from './provider.ts';

/** What the pages need: the provider whose interactions they are, and whom one may sign in as. */
export type InteractionOptions = {
  provider: Provider;
  accounts: Accounts;
  redirectUris: readonly string[];
};

type Choice = { account?: string; action?: string };
type InteractionRequest = FastifyRequest<{ Params: { uid: string } }>;

const choiceSchema = {
  type: 'object',
  properties: { account: { type: 'string' }, action: { const: 'cancel' } },
} as const;
const bodyLimitBytes = 4096;

/**
 * The page on which somebody picks the account to sign in as.
 *
 * Both its requests are tied to the browser that began the sign-in: oidc-provider set a signed
 * `SameSite=Lax` cookie for this one path, and without it there is no interaction to act on.
 */
export async function interactionRoutes(
  app: FastifyInstance,
  { provider, accounts, redirectUris }: InteractionOptions,
): Promise<void> {
  await app.register(formBody, { bodyLimit: bodyLimitBytes });

  app.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof errors.SessionNotFound)) throw error;
    return sendToFastify(reply, 400, lostInteractionPage(redirectUris));
  });

  app.get<{ Params: { uid: string } }>(interactionPath(':uid'), async (request, reply) => {
    await assertOwnInteraction(request, reply);
    return sendToFastify(reply, 200, pickerPage(accounts.list(), redirectUris));
  });

  app.post<{ Params: { uid: string }; Body: Choice }>(
    interactionPath(':uid'),
    { schema: { body: choiceSchema } },
    async (request, reply) => {
      await assertOwnInteraction(request, reply);
      const result = resultOf(request.body);
      if (!result) return sendToFastify(reply, 400, unavailableAccountPage(redirectUris));
      return reply.redirect(await provider.interactionResult(request.raw, reply.raw, result), 303);
    },
  );

  async function assertOwnInteraction(request: InteractionRequest, reply: FastifyReply) {
    const interaction = await provider.interactionDetails(request.raw, reply.raw);
    if (interaction.uid !== request.params.uid) {
      throw new errors.SessionNotFound('the cookie belongs to another interaction');
    }
  }

  function resultOf({ account: sub, action }: Choice): InteractionResults | undefined {
    if (action === 'cancel') {
      return { error: 'access_denied', error_description: 'The sign-in was cancelled.' };
    }
    const account = sub === undefined ? undefined : accounts.find(sub);
    if (!account || account.blocked) return undefined;
    return { login: { accountId: account.sub, remember: false } };
  }
}
