import { useNavigate } from '@tanstack/react-router';
import type { ComponentProps } from 'react';

/** Link to an address of the console with its query, which opens without loading the page again. */
export function AddressLink({ href, ...props }: ComponentProps<'a'> & { href: string }) {
  const navigate = useNavigate();
  return (
    <a
      {...props}
      href={href}
      onClick={(event) => {
        props.onClick?.(event);
        const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
        if (!isPlain || event.defaultPrevented) return;
        event.preventDefault();
        void navigate({ href });
      }}
    />
  );
}
