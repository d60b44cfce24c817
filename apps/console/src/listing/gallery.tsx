import { useQuery } from '@tanstack/react-query';
import { IconChevronLeft, IconChevronRight, IconPhotoOff } from '@tabler/icons-react';
import { useState } from 'react';
import { useMessages } from '../i18n/language.tsx';
import { Modal } from '../shell/modal.ts';
import type { Image } from '../listings/types.ts';
import { imagesQuery } from './queries.ts';
import classes from './listing.module.css';

/** Images that the page shows; the others are in the large view. */
const SHOWN_IMAGES = 5;

/** Images of a listing, which open in a large view. */
export function Gallery({ id, cover }: { id: number; cover: Image | null }) {
  const { close, listings } = useMessages();
  const texts = listings.page;
  const { data } = useQuery(imagesQuery(id));
  const [openIndex, setOpenIndex] = useState<number>();
  // The cover is there before the list of images is.
  const images = data ?? (cover === null ? [] : [cover]);
  const total = images.length;
  const openImage = openIndex === undefined ? undefined : images[openIndex];
  const move = (step: number) => setOpenIndex(((openIndex ?? 0) + step + total) % total);
  const title = texts.image((openIndex ?? 0) + 1, total);
  if (total === 0) {
    return (
      <div className={classes.noImages}>
        <IconPhotoOff size={28} stroke={1.3} aria-hidden />
        {texts.noImages}
      </div>
    );
  }
  return (
    <div>
      <div className={classes.gallery} data-count={Math.min(total, SHOWN_IMAGES)}>
        {images.slice(0, SHOWN_IMAGES).map(({ sha256, links }, index) => (
          <button
            key={sha256}
            type="button"
            aria-label={texts.openImage(index + 1, total)}
            onClick={() => setOpenIndex(index)}
          >
            <img
              src={links.large}
              srcSet={`${links.small} 320w, ${links.large} 1024w`}
              sizes={index === 0 ? '(width < 48em) 100vw, 640px' : '(width < 48em) 25vw, 200px'}
              alt=""
            />
            {index === SHOWN_IMAGES - 1 && total > SHOWN_IMAGES && (
              <span aria-hidden>+{total - SHOWN_IMAGES}</span>
            )}
          </button>
        ))}
      </div>
      <Modal
        opened={openImage !== undefined}
        onClose={() => setOpenIndex(undefined)}
        title={title}
        fullScreen
        closeButtonProps={{ 'aria-label': close }}
        onKeyDown={({ key }) => {
          if (key === 'ArrowRight') move(1);
          if (key === 'ArrowLeft') move(-1);
        }}
      >
        <div className={classes.large}>
          {openImage && <img src={openImage.links.original} alt={title} />}
          {total > 1 && (
            <>
              <button type="button" aria-label={texts.previousImage} onClick={() => move(-1)}>
                <IconChevronLeft aria-hidden />
              </button>
              <button type="button" aria-label={texts.nextImage} onClick={() => move(1)}>
                <IconChevronRight aria-hidden />
              </button>
            </>
          )}
        </div>
      </Modal>
    </div>
  );
}
