import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isLoopback, markOf, SIGN_IN_STEP_MINUTES } from '@oselya/kit';
import { CommandError } from '../../command.ts';
import { oneLine } from '../../terminal.ts';
import type { Assistant, SignIn } from '../assistant.ts';
import { listenForBrowser } from './loopback.ts';
import { openBrowser } from './open-browser.ts';

/** As long as the assistant waits: at the provider, and then on the page that asks. */
const WAIT_MINUTES = 2 * SIGN_IN_STEP_MINUTES;

/**
 * Signs this terminal in with the user's browser: a code comes back to a port of this machine, and is
 * redeemed with a verifier that never leaves this process. RFC 8252, RFC 7636.
 * @param tell Is given what the person has to read.
 * @throws CommandError where they refuse, or nothing comes back in time.
 */
export async function signIn(
  assistant: Assistant,
  { opensBrowser, tell }: { opensBrowser: boolean; tell: (line: string) => void },
): Promise<SignIn> {
  const [verifier, state] = [random(), random()];
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  const server = await listenForBrowser(state);
  const waiting = new AbortController();
  try {
    const address = `${assistant.url}/auth/terminal?${new URLSearchParams({
      port: String(server.port),
      state,
      code_challenge: challenge,
      code_challenge_method: 'S256',
    }).toString()}`;
    const { protocol, hostname } = new URL(assistant.url);
    if (protocol === 'http:' && !isLoopback(hostname)) {
      tell('This assistant is reached by plain http: whoever is in between can read all of it.');
    }
    tell(`Sign in with your browser on this computer: ${address}`);
    tell(`The page has to show the code ${markOf(challenge)}`);
    if (opensBrowser) openBrowser(address);
    const late = sleep(WAIT_MINUTES * 60_000, undefined, { signal: waiting.signal });
    const brought = await Promise.race([server.brought, late.catch(() => undefined)]);
    if (brought === undefined) {
      throw new CommandError(
        `nobody signed in within ${WAIT_MINUTES} minutes: give the command again`,
      );
    }
    if ('error' in brought) {
      throw new CommandError('the sign-in was refused in the browser: nothing was signed in');
    }
    const signedIn = await assistant.redeem(brought.code, verifier);
    // A code may have been brought of another account's sign-in: the person sees whose this is.
    const account = await assistant.account(signedIn);
    tell(account === undefined ? 'Signed in.' : `Signed in as ${oneLine(account)}.`);
    return signedIn;
  } finally {
    waiting.abort();
    server.close();
  }
}

const random = () => randomBytes(32).toString('base64url');
