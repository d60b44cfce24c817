import { html, renderPage, type Server } from '@oselya/kit';
import { permissions as knownPermissions, type User } from './access/permissions.ts';
import type { Identity } from './identity/identity.ts';
import { buildPageSchema } from './identity/routes.ts';

/** Registers `/`, the home page without the console. */
export function registerHomeRoute(app: Server, identity: Identity, baseUrl: string): void {
  app.get(
    '/',
    {
      config: { access: 'public', errors: ['provider_unavailable', 'user_without_email'] },
      schema: { hide: true, response: { 200: buildPageSchema('The signed-in user.') } },
    },
    async (request, reply) => {
      const resolvedUser = await identity.resolveRequestUser(request, reply);
      const page = renderPage({
        title: 'Assistant',
        body: html`<h1>Oselya</h1>
          ${resolvedUser === undefined ? renderSignIn(baseUrl) : renderUser(resolvedUser.user)}
          <p><a href="/docs">API documentation</a></p>
          <p>
            <small>Build the console with <code>npm run build:console</code>, then restart.</small>
          </p>`,
      });
      return (
        reply
          .header('cache-control', 'no-store')
          // Under the default policy, older browsers send only `Origin: null` with a form, which counts as cross-site.
          .header('referrer-policy', 'same-origin')
          .type('text/html; charset=utf-8')
          .send(page)
      );
    },
  );
}

/** Renders a link to the public origin, because a sign-in under a different host name returns without its cookie. */
function renderSignIn(baseUrl: string) {
  return html`<p>You are not signed in.</p>
    <p><a class="button" href="${baseUrl}/auth/login">Sign in</a></p>`;
}

function renderUser({ email, display_name, role, permissions }: User) {
  const knownSlugs = permissions.filter((slug) => Object.hasOwn(knownPermissions, slug));
  return html`<p>You are signed in as <strong>${display_name ?? email}</strong>.</p>
    <dl>
      <dt>Email</dt>
      <dd>${email}</dd>
      <dt>Role</dt>
      <dd>${role}</dd>
      <dt>Permissions</dt>
      <dd>${role === 'admin' ? 'all, as an admin' : knownSlugs.join(', ') || 'none'}</dd>
    </dl>
    <form method="post" action="/auth/logout?from=page">
      <button id="sign-out">Sign out</button>
    </form>`;
}
