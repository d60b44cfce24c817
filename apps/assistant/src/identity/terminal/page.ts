import { html, renderPage } from '@oselya/kit';
import type { Question } from './sign-ins.ts';

/**
 * The page that asks whether a terminal may be signed in. It says what to compare, since a link that somebody
 * else sent leads here as well. RFC 8252 §8.10.
 * @param id Names the sign-in; its shape was checked.
 */
export function confirmationPage(id: string, { name, port, mark }: Question): string {
  return renderPage({
    title: 'Sign in a terminal',
    body: html`<h1>Sign in a terminal?</h1>
      <p>
        A program on this computer asks to be signed in as you. Agree only if you have just started
        <code>oselya chat</code> yourself, and it shows the same code.
      </p>
      <dl>
        <dt>Account</dt>
        <dd>${name}</dd>
        <dt>Code</dt>
        <dd><code id="mark">${mark}</code></dd>
        <dt>Listens at</dt>
        <dd>127.0.0.1:${port}, on this computer</dd>
      </dl>
      <p>It may then do what you may do here, until you sign it out.</p>
      <form method="post" action="/auth/terminal/confirm?request=${id}">
        <p><button id="confirm">Sign it in</button></p>
      </form>
      <form method="post" action="/auth/terminal/refuse?request=${id}">
        <p><button id="refuse">I did not start this</button></p>
      </form>`,
  });
}
