import { useEffect } from 'react';

/** Sets the title of the document while a page is shown. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Oselya`;
  }, [title]);
}
