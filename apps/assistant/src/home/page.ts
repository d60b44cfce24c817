import { html, renderPage } from '@oselya/kit';
import type { SignedInUser } from '../access/guards.ts';

/**
 * The first page: who is signed in, and the way in or out. The way in leads to the public origin: a
 * sign-in that is begun under another name of this service ends there, where its cookie is missing.
 */
export function homePage(user: SignedInUser | undefined, baseUrl: string): string {
  return renderPage({
    title: 'Assistant',
    head: html`<script src="/app.js" defer></script>`,
    body: html`<h1>Oselya</h1>
      ${user === undefined ? signedOut(baseUrl) : details(user)}
      <p><a href="/docs">API documentation</a></p>`,
  });
}

function signedOut(baseUrl: string) {
  return html`<p>You are not signed in.</p>
    <p><a class="button" href="${baseUrl}/auth/login">Sign in</a></p>`;
}

function details({ email, display_name, role, permissions }: SignedInUser) {
  return html`<p>You are signed in as <strong>${display_name ?? email}</strong>.</p>
    <dl>
      <dt>Email</dt>
      <dd>${email}</dd>
      <dt>Role</dt>
      <dd>${role}</dd>
      <dt>Permissions</dt>
      <dd>${permissions.length === 0 ? 'none' : permissions.join(', ')}</dd>
    </dl>
    <p><button type="button" id="sign-out">Sign out</button></p>
    <p role="status" id="message"></p>`;
}
