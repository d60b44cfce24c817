import type { Server } from '@oselya/kit';
import type { Browser, TestAssistant } from '../helpers/assistant.ts';

/** What the provider says of somebody with these permissions. */
const person = (sub: string, permissions: readonly string[], roles: readonly string[]) => ({
  sub,
  email: `${sub}@example.test`,
  profile: { display_name: sub },
  client_access_list: [{ client_id: 'oselya', role_ids: roles, permission_ids: permissions }],
});

export type People = Record<'olena' | 'taras' | 'reader' | 'nothing' | 'admin', Browser>;

/**
 * Signs in those who look at memory differently: two users with their own, one who may only read
 * everybody's, one who may do nothing, and an admin.
 */
export async function signInPeople(assistant: TestAssistant, app: Server): Promise<People> {
  const own = ['svc.memory.read_own'];
  return {
    olena: await assistant.signedIn(app, person('olena', own, [])),
    taras: await assistant.signedIn(app, person('taras', own, [])),
    reader: await assistant.signedIn(app, person('reader', ['svc.memory.read_all'], [])),
    nothing: await assistant.signedIn(app, person('nothing', ['svc.memory'], [])),
    admin: await assistant.signedIn(app, person('admin', [], ['svc_admin'])),
  };
}

/**
 * All pages of a list, from its first address on.
 * @throws Error where they do not end: no list of a test has more than 20 pages.
 */
export async function pages(browser: Browser, first: string) {
  const answers = [];
  let url: string | undefined = first;
  while (url !== undefined) {
    if (answers.length === 20) throw new Error(`The pages of ${first} do not end`);
    const answer = await browser.get(url);
    answers.push(answer);
    url = /^<(.*)>; rel="next"$/.exec(String(answer.headers.link))?.[1];
  }
  return answers;
}
