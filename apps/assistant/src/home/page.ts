import { html, renderPage } from '@oselya/kit';
import { permissions as known, type User } from '../access/permissions.ts';

/**
 * The first page: who is signed in, and the way in or out. The way in leads to the public origin: a
 * sign-in that is begun under another name of this service ends there, where its cookie is missing.
 */
export function homePage(user: User | undefined, baseUrl: string): string {
  return renderPage({
    title: 'Assistant',
    body: html`<h1>Oselya</h1>
      ${user === undefined ? signedOut(baseUrl) : details(user)}
      <p><a href="/docs">API documentation</a></p>`,
  });
}

function signedOut(baseUrl: string) {
  return html`<p>You are not signed in.</p>
    <p><a class="button" href="${baseUrl}/auth/login">Sign in</a></p>`;
}

function details(user: User) {
  const { email, display_name, role } = user;
  return html`<p>You are signed in as <strong>${display_name ?? email}</strong>.</p>
    <dl>
      <dt>Email</dt>
      <dd>${email}</dd>
      <dt>Role</dt>
      <dd>${role}</dd>
      <dt>Permissions</dt>
      <dd>${allowed(user)}</dd>
    </dl>
    <form method="post" action="/auth/logout?from=page">
      <button id="sign-out">Sign out</button>
    </form>`;
}

/** Slugs that mean nothing here, such as roles in a claim that holds both, are left out. */
function allowed({ role, permissions }: User): string {
  if (role === 'admin') return 'all, as an admin';
  const meaningful = permissions.filter((slug) => Object.hasOwn(known, slug));
  return meaningful.length === 0 ? 'none' : meaningful.join(', ');
}
