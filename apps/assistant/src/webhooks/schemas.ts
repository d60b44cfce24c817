import { cursors, pageQuery } from '@oselya/kit';
import { Type } from 'typebox';
import { nullable, timestamp, userId } from '../schema.ts';

/** What the provider sends. It is documented and not checked: see `routes.ts`. */
export const webhookBody = Type.Object(
  {
    event: Type.Optional(
      Type.String({ description: 'What happened; `type` is taken where there is none.' }),
    ),
    user_id: Type.Optional(userId),
    event_id: Type.Optional(
      Type.String({
        maxLength: 255,
        description:
          'Where the signature is over the body alone: an event with an id is acted on once.',
      }),
    ),
  },
  { examples: [{ event: 'user.blocked', user_id: 'u-1' }] },
);

/** What the provider posts to end sessions. OpenID Connect Back-Channel Logout 1.0 §2.5. */
export const logoutBody = Type.Object(
  { logout_token: Type.String({ description: 'A JWT that the provider signed.' }) },
  { examples: [{ logout_token: 'eyJhbGciOiJSUzI1NiJ9.e30.c2ln' }] },
);

/** How many rows of the ledger a page has. */
export const LEDGER_PAGE = { limit: 50, maxLimit: 200 };

/** The members of a page of the ledger. */
export const ledgerQuery = Type.Object(pageQuery(LEDGER_PAGE));

/** The cursor is the id of the last row. */
export const ledgerCursors = cursors(
  Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
);

/** A page of the ledger, newest first. Contract 3, Webhooks. */
export const ledgerPage = Type.Array(
  Type.Object(
    {
      id: Type.Integer(),
      received_at: timestamp(),
      delivery_id: nullable(Type.String({ description: 'Signed; it is acted on once.' })),
      signature: Type.Union(
        [Type.Literal('hmac'), Type.Literal('standard'), Type.Literal('logout_token')],
        { description: "Over the body alone, as Standard Webhooks says, or OpenID Connect's own." },
      ),
      event: nullable(Type.String()),
      user_id: nullable(Type.String()),
      outcome: Type.Union([Type.Literal('applied'), Type.Literal('ignored')], {
        description: '`ignored` where the event changes nothing here.',
      }),
      sessions_ended: Type.Integer(),
      body_sha256: Type.String({ description: 'Of the raw body, in hex.' }),
    },
    { $id: 'WebhookEvent' },
  ),
  {
    description: 'The ledger, newest first.',
    examples: [
      [
        {
          id: 17,
          received_at: '2026-11-21T08:30:00.000Z',
          delivery_id: 'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W',
          signature: 'standard',
          event: 'user.blocked',
          user_id: 'u-1',
          outcome: 'applied',
          sessions_ended: 2,
          body_sha256: 'b1946ac92492d2347c6235b4d2611184b1946ac92492d2347c6235b4d2611184',
        },
      ],
    ],
  },
);
