/** Domain of every user's email, which each answer about a user contains. */
export const EMAIL_DOMAIN = '@users.example.test';

/** Creates a test user, the same for all variants. */
export function createUser(index: number): { id: string; email: string; name: string } {
  return { id: `u-${index}`, email: `user-${index}${EMAIL_DOMAIN}`, name: `User ${index}` };
}

/** Runs a task for a number of users, ten at a time, and returns the results in order. */
export async function mapUsers<Result>(
  count: number,
  work: (index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let first = 0; first < count; first += 10) {
    const indexes = Array.from({ length: Math.min(10, count - first) }, (_, nth) => first + nth);
    results.push(...(await Promise.all(indexes.map(work))));
  }
  return results;
}
