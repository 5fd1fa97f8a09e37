module helm
