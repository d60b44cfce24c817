import { IconScale, IconX } from '@tabler/icons-react';
import { Link } from '@tanstack/react-router';
import { useMessages } from '../i18n/language.tsx';
import { setComparison, useComparison } from './comparison.ts';
import classes from './comparison-tray.module.css';

/** Bar with the number of chosen listings, which leads to their comparison. */
export function ComparisonTray() {
  const texts = useMessages().listings.compare;
  const ids = useComparison();
  if (ids.length === 0) return null;
  return (
    <div className={classes.tray} role="status">
      <Link to="/app/compare" search={{ ids: ids.map(String) }} className={classes.open}>
        <IconScale size={18} aria-hidden />
        {texts.open(ids.length)}
      </Link>
      <button type="button" aria-label={texts.clear} onClick={() => setComparison([])}>
        <IconX size={18} aria-hidden />
      </button>
    </div>
  );
}
