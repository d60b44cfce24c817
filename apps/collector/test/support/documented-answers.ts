type Document = {
  paths: Record<
    string,
    Record<
      string,
      {
        responses: Record<
          string,
          { content?: Record<string, { examples?: Record<string, object> }> }
        >;
      }
    >
  >;
};

type Route = { method: string; path: string; answers: Record<string, string[]> };

/** The routes of a collector's OpenAPI document, and what each can be answered: the codes of errors by status. */
export async function documentedRoutes(collector: { url: string }): Promise<Route[]> {
  const response = await fetch(`${collector.url}/openapi.json`);
  const { paths } = (await response.json()) as Document;
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { responses }]) => ({
      method,
      path,
      answers: Object.fromEntries(
        Object.entries(responses).map(([status, { content }]) => [
          status,
          Object.keys(content?.['application/problem+json']?.examples ?? {}).toSorted(),
        ]),
      ),
    })),
  );
}

/** What a POST can be answered, as `documentedRoutes` gives it. */
export async function documentedAnswers(
  collector: { url: string },
  path: string,
): Promise<Record<string, string[]>> {
  const routes = await documentedRoutes(collector);
  return routes.find((route) => route.path === path && route.method === 'post')?.answers ?? {};
}
